"""The tests of new projects with DataFrame connectors, with the Spark session that these tests share."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from support.conformance_verdicts import verdicts
from support.new_project import written

pytestmark = pytest.mark.usefixtures("runtime")


def own_tests(project: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of a project's tests; pytest in a process of its own would start another Spark."""
    monkeypatch.syspath_prepend(str(project / "src"))
    file = project / "tests/test_connector.py"
    found = importlib.util.spec_from_file_location(f"tests_of_{project.name.replace('-', '_')}", file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_a_new_source_passes_its_own_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = own_tests(written(tmp_path, "dataframe-source", "new-tables"), monkeypatch)
    again = "test_a_file_that_is_written_again_is_another_split"
    (tmp_path / "files").mkdir()
    getattr(tests.TestNewTables(), again)(tmp_path / "files")
    monkeypatch.delattr(tests.TestNewTables, again)
    found = verdicts(tests.TestNewTables)
    assert set(found.values()) == {"passed"}, found


def test_a_new_sink_passes_its_own_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = own_tests(written(tmp_path, "dataframe-sink", "new-store"), monkeypatch)
    found = verdicts(tests.TestNewStore)
    assert set(found.values()) == {"passed"}, found
