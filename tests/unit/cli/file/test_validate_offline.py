"""`fencepost validate --offline`: without a worker, the plug-ins themselves say what is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fencepost.builtin.provider.local import EnvVarConfigProvider
from fencepost.cli.main import app
from fencepost.config import connector_limit
from fencepost.config.connector_limit import FileLimit
from fencepost.plugin import registry, use_registry
from support.settings import SETTINGS

_ENV = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_PLUGIN = """
from fencepost.api import SourceConnector, SourceTask, at_least, setting

class RiverTask(SourceTask):
    def poll(self):
        raise AssertionError("nothing is started")

class RiverConnector(SourceConnector):
    task = RiverTask
    depth: int = setting("river.depth", check=at_least(1))
    gauge: int = setting("river.gauge", default=1)
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    before = registry()
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/river_plugin.py").write_text(_PLUGIN)
    monkeypatch.setenv("FENCEPOST_URL", "http://127.0.0.1:1")
    yield tmp_path / "plugins"
    use_registry(before)


def validated(plugins: Path, config: dict[str, str], *options: str) -> tuple[int, str]:
    file = plugins.parent / "river.json"
    file.write_text(json.dumps({"name": "river", "config": config}))
    done = CliRunner().invoke(app, ["validate", str(file), "--offline", "--plugin-path", str(plugins), *options])
    return done.exit_code, done.output


def test_offline_validation_checks_values_with_the_plugin_of_a_directory(plugins: Path) -> None:
    config = {"connector.class": "RiverConnector", "river.depth": "3"}
    assert validated(plugins, config) == (0, "1 valid\n")
    code, output = validated(plugins, config | {"river.depth": "0", "tasks.max": "many", "transforms": "t"})
    assert code == 2
    assert "river.depth: Invalid value 0 for configuration river.depth: Value must be at least 1" in output
    assert "tasks.max" in output
    assert "transforms.t.type" in output


def test_offline_validation_names_a_class_missing_from_the_directory(plugins: Path) -> None:
    code, output = validated(plugins, {"connector.class": "org.example.LakeConnector"})
    assert code == 2
    assert "org.example.LakeConnector" in output


def test_offline_validation_skips_values_that_are_references(plugins: Path) -> None:
    config = {"connector.class": "River", "river.depth": "${secrets:river:depth}", "river.gauge": "deep"}
    code, output = validated(plugins, config)
    assert code == 2
    assert "river.gauge" in output
    assert "river.depth" not in output


def test_offline_validation_finds_plugins_on_the_path_of_the_workers_file(plugins: Path) -> None:
    file = plugins.parent / "river-worker.properties"
    lines = {"bootstrap.servers": "k:9", "group.id": "g", "plugin.path": str(plugins)}
    lines |= {f"{topic}.storage.topic": topic for topic in ("config", "offset", "status")}
    lines |= {f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter" for part in ("key", "value")}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    config = plugins.parent / "river.json"
    config.write_text(json.dumps({"name": "river", "config": {"connector.class": "River", "river.depth": "2"}}))
    done = CliRunner().invoke(app, ["validate", str(config), "--offline", "--properties", str(file)])
    assert (done.exit_code, done.output) == (0, "1 valid\n")


def test_offline_validation_calls_no_config_provider_of_the_workers_file(
    plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIVER_DEPTH", "0")
    file = plugins.parent / "asking-worker.properties"
    lines = {"bootstrap.servers": "k:9", "group.id": "g", "config.providers": "env", "config.providers.env.class": _ENV}
    lines |= {f"{topic}.storage.topic": topic for topic in ("config", "offset", "status")}
    lines |= {f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter" for part in ("key", "value")}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    asked: list[object] = []
    get = EnvVarConfigProvider.get
    monkeypatch.setattr(EnvVarConfigProvider, "get", lambda *given: asked.append(given) or get(*given))
    config = {"connector.class": "River", "river.depth": "${env:RIVER_DEPTH}"}
    assert validated(plugins, config, "--properties", str(file)) == (0, "1 valid\n")
    assert not asked


def test_offline_validation_refuses_a_file_that_the_workers_file_forbids(
    plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector_limit, "_limit", FileLimit())
    worker = plugins.parent / "limiting-worker.properties"
    given = {**SETTINGS, "connector.file.allowed.paths": str(plugins)}
    worker.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    config = {"connector.class": "FileStreamSource", "file": "/etc/passwd", "topic": "t"}
    code, output = validated(plugins, config, "--properties", str(worker))
    assert (code, "configuration file: " in output) == (2, True)
