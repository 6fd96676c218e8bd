"""`fencepost new connector`: what it writes, and that it is right without Kafka."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fencepost.cli.new.project import ConnectorKind, Project
from fencepost.config import ConfigError
from fencepost.plugin import PluginKind, PluginRegistry
from support.new_project import KINDS, installed, run_tests, written

FILES = [
    ".gitignore",
    "README.md",
    "pyproject.toml",
    "src/price_feed/__init__.py",
    "src/price_feed/connector.py",
    "src/price_feed/py.typed",
    "tests/test_connector.py",
    "tests/test_on_kafka.py",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_project_has_its_files_and_no_gap_is_left(tmp_path: Path, kind: str) -> None:
    project = written(tmp_path, kind)
    found = [file for file in sorted(project.rglob("*")) if file.is_file()]
    assert [str(file.relative_to(project)) for file in found] == FILES
    for file in found:
        assert not re.search(r"\$\{?[a-z]+|PACKAGE", file.read_text()), file


def test_every_kind_has_templates() -> None:
    assert tuple(ConnectorKind) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_projects_own_tests_pass(tmp_path: Path, kind: str) -> None:
    code, said = run_tests(written(tmp_path, kind), ["tests/test_connector.py"])
    assert code == 0, said
    assert re.search(r"[5-9] passed", said), said


def test_the_entry_point_is_the_one_that_workers_look_for(tmp_path: Path) -> None:
    facts = tomllib.loads((written(tmp_path) / "pyproject.toml").read_text())["project"]
    assert facts["entry-points"] == {
        PluginKind.CONNECTOR.entry_point_group: {"price_feed": "price_feed.connector:PriceFeedConnector"}
    }
    assert facts["dependencies"] == ["fencepost"]


def test_what_is_written_is_formatted_and_has_no_lint(tmp_path: Path) -> None:
    files = [str(file) for kind in KINDS for file in written(tmp_path, kind).rglob("*.py")]
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
    ],
)
def test_a_name_that_no_package_can_have_is_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Project(name, ConnectorKind.SOURCE).write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_directory_with_anything_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        Project("feed", ConnectorKind.SOURCE).write(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes"]


def test_the_class_is_found_where_the_package_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = written(tmp_path, "sink", "found-by-entry-point")
    monkeypatch.syspath_prepend(str(installed(project)))
    monkeypatch.syspath_prepend(str(project / "src"))
    found = PluginRegistry().find(PluginKind.CONNECTOR, "FoundByEntryPoint")
    assert found.__module__ == "found_by_entry_point.connector"
