"""The files that connectors may use: the worker's own are never theirs, and a setting limits the others."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost import plugin as own_plugins
from fencepost.api import ConfigError, FatalError
from fencepost.builtin.connector.file_stream.lines import FileStart, GrowingFile
from fencepost.builtin.connector.file_stream.sink import FileStreamSinkConnector, LineFile
from fencepost.builtin.connector.file_stream.source import FileStreamSourceConnector
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.builtin.connector.spool.source import SpoolDirectorySource
from fencepost.config.connector_limit import FileLimit, file_limit, use_file_limit
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.task.channel.task_spec import LimitSpec, LookUpSpec, TaskSpec
from fencepost.task.conversion.plugins import use_plugins
from fencepost.worker.settings import limit_files
from fencepost.worker.validation.validation import validate_connector
from support.settings import SETTINGS

PLUGINS = PluginRegistry()
FILE_KEYS: list[tuple[type[Any], dict[str, str], str]] = [
    (FileStreamSourceConnector, {"topic": "t"}, "file"),
    (FileStreamSinkConnector, {"topics": "t"}, "file"),
]
DIRECTORY_KEYS: list[tuple[type[Any], dict[str, str], str]] = [
    (SpoolDirectorySource, {"topic": "t"}, "input.path"),
    (SpoolDirectorySource, {"topic": "t", "input.path": "s3a://b/in"}, "finished.path"),
    (SpoolDirectorySource, {"topic": "t", "input.path": "s3a://b/in"}, "error.path"),
    (FilesSink, {"topics": "t"}, "path"),
    (FilesSink, {"topics": "t", "path": "s3a://b/out"}, "aside.path"),
]


@pytest.fixture(autouse=True)
def unlimited() -> Iterator[None]:
    before = file_limit()
    use_file_limit(FileLimit())
    yield
    use_file_limit(before)


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """Return the directory of a worker's own files, after it has limited its connectors to another one."""
    made = tmp_path / "etc"
    made.mkdir()
    (tmp_path / "data").mkdir()
    for name in ("roles", "users", "keys.pem", "jaas.conf"):
        (made / name).write_text("secret")
    (made / "plugins").mkdir()
    return made


def worker(etc: Path, **more: str) -> WorkerConfig:
    return WorkerConfig(
        {
            **SETTINGS,
            "rest.roles.file": str(etc / "roles"),
            "rest.basic.users.file": str(etc / "users"),
            "ssl.truststore.location": str(etc / "keys.pem"),
            "java.host.options": f"-Xmx1g -Djava.security.auth.login.config={etc / 'jaas.conf'}",
            "plugin.path": str(etc / "plugins"),
            **more,
        }
    )


def faults(cls: type, rest: dict[str, str], key: str, path: object, config: WorkerConfig) -> list[str]:
    given = {"name": "n", "connector.class": cls.__name__, **rest, key: str(path)}
    report = validate_connector(given, plugins=PLUGINS, worker=config)
    return [text for one in report.configs if one.value.name == key for text in one.value.errors]


@pytest.mark.parametrize("allowed", [None, "/"])
@pytest.mark.parametrize(("cls", "rest", "key"), FILE_KEYS + DIRECTORY_KEYS)
def test_workers_own_file_is_refused_when_any_path_is_allowed(
    etc: Path, cls: type, rest: dict[str, str], key: str, allowed: str | None
) -> None:
    limit_files(config := worker(etc, **({} if allowed is None else {"connector.file.allowed.paths": allowed})))
    assert "files of its own" in faults(cls, rest, key, etc / "roles", config)[0]
    for name in ("roles", "users", "keys.pem", "jaas.conf", "plugins", "plugins/code.py"):
        link = etc.parent / "data" / name.replace("/", "-")
        link.symlink_to(etc / name)
        for path in (etc / name, f"{etc}/../{etc.name}/{name}", link):
            with pytest.raises(ConfigError, match=rf"configuration {key}: .*files of its own"):
                cls({**rest, key: str(path)})


@pytest.mark.parametrize(("cls", "rest", "key"), DIRECTORY_KEYS)
def test_directory_is_refused_when_it_has_a_file_of_the_worker(
    etc: Path, cls: type, rest: dict[str, str], key: str
) -> None:
    limit_files(worker(etc))
    for path in (etc, f"file:{etc}", f"file://{etc}", f"FILE:///{etc}", f"//host{etc}", f"har://{etc}"):
        with pytest.raises(ConfigError, match=rf"configuration {key}: .*files of its own"):
            cls({**rest, key: str(path)})
    for path in (etc.parent, etc.parent / "data", f"hdfs://{etc}", f"s3a:{etc}"):
        cls({**rest, key: str(path)})


@pytest.mark.parametrize(("cls", "rest", "key"), FILE_KEYS + DIRECTORY_KEYS)
def test_path_is_refused_when_it_is_outside_the_allowed_paths(
    etc: Path, cls: type, rest: dict[str, str], key: str
) -> None:
    data = etc.parent / "data"
    limit_files(config := worker(etc, **{"connector.file.allowed.paths": str(data)}))
    (data / "out").symlink_to(etc.parent)
    for path in ("/etc/passwd", f"{data}/../x", f"{data}-2", data / "out" / "x", "relative"):
        with pytest.raises(ConfigError, match=rf"configuration {key}: .*connector\.file\.allowed\.paths"):
            cls({**rest, key: str(path)})
    assert "connector.file.allowed.paths" in faults(cls, rest, key, "/etc/passwd", config)[0]
    for path in (data / "x", f"{data}/a/../b"):
        cls({**rest, key: str(path)})


def test_task_refuses_a_file_when_its_path_became_a_link_to_a_worker_file(etc: Path) -> None:
    path = etc.parent / "data" / "lines"
    path.symlink_to(etc / "roles")
    limits = LimitSpec(refused_files=(str(etc / "roles"),))
    use_plugins(TaskSpec("c", 0, 1, "i", {}, {}, look_up=LookUpSpec(limits=limits)))
    with pytest.raises(FatalError, match="files of its own"):
        LineFile(str(path))
    with pytest.raises(FatalError, match="files of its own"):
        GrowingFile(str(path), FileStart(None)).look(0)
    assert (etc / "roles").read_text() == "secret"


def test_file_limits_of_a_task_spec_apply_after_transfer_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_plugins, "_registry", PluginRegistry())  # in which it disables a plug-in
    limits = LimitSpec(("/data",), ("/data/roles",), ("FileStreamSink",))
    spec = TaskSpec("c", 0, 1, "i", {}, {}, look_up=LookUpSpec(limits=limits))
    use_plugins(TaskSpec.from_json(spec.to_json()))
    assert file_limit() == FileLimit(("/data",), ("/data/roles",))
    use_plugins(TaskSpec("c", 0, 1, "i", {}, {}))
    assert file_limit() == FileLimit()


@pytest.mark.parametrize("value", ["data", "/data,,/more", ","])
def test_allowed_paths_are_refused_when_one_is_empty_or_relative(value: str) -> None:
    with pytest.raises(ConfigError, match=r"connector\.file\.allowed\.paths"):
        WorkerConfig({**SETTINGS, "connector.file.allowed.paths": value})


def test_worker_warns_when_there_are_roles_and_no_limits(tmp_path: Path) -> None:
    env = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    limited = {"config.providers.env.param.allowlist.pattern": "APP_.*", "connector.file.allowed.paths": str(tmp_path)}
    roles = {"rest.roles.file": os.devnull}
    found = WorkerConfig({**SETTINGS, **roles, **env}).warnings()
    assert ["allowlist.pattern" in found[0], "connector.file.allowed.paths" in found[1]] == [True, True]
    assert not WorkerConfig({**SETTINGS, **roles, **env, **limited}).warnings()
    assert not WorkerConfig({**SETTINGS, **env}).warnings()
