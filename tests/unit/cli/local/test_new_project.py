"""`fencepost new`: what it writes, and that it is right without Kafka."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fencepost.cli.local.new import TRANSFORM, ConnectorKind, Project
from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.worker.validation.validation import require_valid, validate_connector
from support.command_line import fencepost
from support.new_project import DATAFRAMES, EVERY_KIND, KINDS, installed, run_tests, written

WORKER = {
    "group.id": "g",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "status",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
COMMON = [".gitignore", "README.md", "pyproject.toml", "src/price_feed/__init__.py", "src/price_feed/py.typed"]
OF_CONNECTORS = ["src/price_feed/connector.py", "tests/test_connector.py"]
OWN_FILES = {
    **{kind: [*OF_CONNECTORS, "tests/test_on_kafka.py"] for kind in KINDS},
    **dict.fromkeys(DATAFRAMES, OF_CONNECTORS),
    TRANSFORM: ["src/price_feed/transform.py", "tests/test_transform.py"],
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_new_project_has_all_files_and_no_unfilled_placeholder(tmp_path: Path, kind: str) -> None:
    project = written(tmp_path, kind)
    found = [file for file in sorted(project.rglob("*")) if file.is_file()]
    assert [str(file.relative_to(project)) for file in found] == sorted([*COMMON, *OWN_FILES[kind]])
    for file in found:
        assert not re.search(r"\$\{?[a-z]+|PACKAGE|PLUGIN", file.read_text()), file


def test_every_kind_of_new_project_has_templates() -> None:
    assert (*ConnectorKind, TRANSFORM) == EVERY_KIND


@pytest.mark.parametrize("kind", [*KINDS, TRANSFORM])
def test_new_projects_own_tests_pass(tmp_path: Path, kind: str) -> None:
    """The tests of DataFrame connectors need Spark and run in tests/integration/spark."""
    [test] = [name for name in OWN_FILES[kind] if name in ("tests/test_connector.py", "tests/test_transform.py")]
    code, said = run_tests(written(tmp_path, kind), [test])
    assert code == 0, said
    assert re.search(r"([5-9]|1\d) passed", said), said


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_config_in_a_new_projects_readme_is_valid(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    project = written(tmp_path, kind, f"told-{kind}")
    monkeypatch.syspath_prepend(str(project / "src"))
    body = re.search(r"-d '\n(.*?)'", (project / "README.md").read_text(), re.DOTALL)
    assert body is not None
    config = {"name": "c", **json.loads(body[1])}
    report = validate_connector(config, plugins=PluginRegistry([str(project / "src")]), worker=WorkerConfig(WORKER))
    require_valid(report)
    assert not report.warnings


@pytest.mark.parametrize(
    ("kind", "group", "plugin"),
    [
        ("source", PluginKind.CONNECTOR, "connector:PriceFeedConnector"),
        ("dataframe-sink", PluginKind.CONNECTOR, "connector:PriceFeedConnector"),
        (TRANSFORM, PluginKind.TRANSFORM, "transform:PriceFeed"),
    ],
)
def test_new_projects_entry_point_has_the_group_that_workers_search(
    tmp_path: Path, kind: str, group: PluginKind, plugin: str
) -> None:
    facts = tomllib.loads((written(tmp_path, kind) / "pyproject.toml").read_text())["project"]
    assert facts["entry-points"] == {group.entry_point_group: {"price_feed": f"price_feed.{plugin}"}}
    assert facts["dependencies"] == ["fencepost"]


def test_new_project_is_formatted_and_has_no_lint(tmp_path: Path) -> None:
    files = [str(file) for kind in EVERY_KIND for file in written(tmp_path, kind).rglob("*.py")]
    for command in (["format", "--check"], ["check", "--select=E,F,I,UP,B,SIM,PT"]):
        options = ["--isolated", "--line-length=120", "--no-cache"]
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *options, *files], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("PriceFeed", "lower-case letters and digits, and - between words; for example pricefeed"),
        ("my feed!", "for example my-feed"),
        ("2fast", "for example fast"),
        ("json", "a package of that name exists already; for example my-json"),
        ("fencepost", "for example my-fencepost"),
        ("source", "a class of that name exists already; for example my-source"),
        ("data-frame", "a class of that name exists already; for example my-data-frame"),
    ],
)
def test_new_project_refuses_an_invalid_package_name(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Project(name, ConnectorKind.SOURCE).write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_new_project_refuses_a_directory_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        Project("feed", ConnectorKind.SOURCE).write(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes"]


def test_class_of_an_installed_new_project_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = written(tmp_path, "sink", "found-by-entry-point")
    monkeypatch.syspath_prepend(str(installed(project)))
    monkeypatch.syspath_prepend(str(project / "src"))
    found = PluginRegistry().find(PluginKind.CONNECTOR, "FoundByEntryPoint")
    assert found.__module__ == "found_by_entry_point.connector"


def test_new_pipeline_is_two_files_in_an_empty_directory(tmp_path: Path) -> None:
    ran = fencepost("new", "pipeline", tmp_path / "shop")
    assert f"Next: fencepost dev --pipeline {tmp_path}/shop/shop.json" in ran.out
    assert {file.name for file in (tmp_path / "shop").iterdir()} == {"shop.json", "shop.sql"}
    assert "exists already" in fencepost("new", "pipeline", tmp_path / "shop").text
