"""Mistakes of those who write plug-ins: found early, and put in their words."""

import textwrap
from pathlib import Path

import pytest

from fencepost.api import ConfigError
from fencepost.plugin import PluginKind, PluginRegistry

GOOD = """
from fencepost.api import SourceConnector, SourceTask

class PriceTask(SourceTask):
    def poll(self):
        return None

class PriceConnector(SourceConnector):
    task = PriceTask
"""


@pytest.fixture(scope="module")
def close_by(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("plugins")
    (directory / "fp_close.py").write_text(GOOD)
    return directory


def said(directory: Path, name: str, kind: PluginKind = PluginKind.CONNECTOR) -> str:
    with pytest.raises(ConfigError) as caught:
        PluginRegistry([str(directory)]).find(kind, name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("Prise", "PriceConnector"),
        ("PriceConector", "PriceConnector"),
        ("priceconnector", "PriceConnector"),
        ("fp_close.PriceConnectr", "fp_close.PriceConnector"),
        ("FileStreamSorce", "FileStreamSourceConnector"),
    ],
)
def test_error_for_a_misspelt_name_suggests_the_right_one(close_by: Path, name: str, close: str) -> None:
    assert f" Did you mean {close}? " in said(close_by, name)


def test_suggestion_for_a_typo_comes_first_and_names_no_java_plugin(tmp_path: Path) -> None:
    (tmp_path / "fp_needy_too.py").write_text("import no_such_module")
    text = said(tmp_path, "JsonConvrter", PluginKind.CONVERTER)
    assert text.startswith("Class JsonConvrter could not be found. Did you mean JsonConverter? plugin.path: ")
    assert "no_such_module" in text
    assert "Java" not in text
    assert "Java plug-in" in said(tmp_path, "JdbcSinkConnector")


def test_load_failure_names_the_file_and_line(tmp_path: Path) -> None:
    package = tmp_path / "fp_package"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import Feed")
    (package / "inner.py").write_text("import json\n\nFeed = json.loads('[')['a']\n")
    (tmp_path / "fp_no_python.py").write_text("def x(:\n")
    of_python, of_package = PluginRegistry([str(tmp_path)]).failures()
    assert of_python.endswith("SyntaxError: invalid syntax (fp_no_python.py, line 1)")
    assert of_package.endswith("(inner.py, line 3)")


def test_error_for_a_misspelt_transform_suggests_the_right_one(tmp_path: Path) -> None:
    text = said(tmp_path, "InsertFeld$Value", PluginKind.TRANSFORM)
    assert text.startswith("Class InsertFeld$Value could not be found. Did you mean InsertField$Value")


def test_load_failures_come_first_in_the_error_without_the_full_list(tmp_path: Path) -> None:
    (tmp_path / "fp_needy.py").write_text(f"import no_such_module\n{GOOD}")
    text = said(tmp_path, "Price")
    what, cause, *_ = text.split(". ")
    assert what == "Failed to find any class that implements Connector and which name matches Price"
    assert cause.endswith(
        "fp_needy.py could not be loaded: ModuleNotFoundError: No module named 'no_such_module' (fp_needy.py, line 1)"
    )
    assert "Plug-ins are read when a worker starts: restart it" in text
    assert len(text) < 600


@pytest.mark.parametrize(("name", "better"), [("my-dashed.py", "my_dashed.py"), ("2fast.py", "my_2fast.py")])
def test_plugin_file_with_an_invalid_module_name_is_reported(tmp_path: Path, name: str, better: str) -> None:
    (tmp_path / name).write_text(GOOD)
    text = said(tmp_path, "Price")
    assert (
        f"{name} is not read, because {Path(name).stem} cannot be the name of a module: rename it to {better}" in text
    )


def test_package_with_an_invalid_module_name_is_reported(tmp_path: Path) -> None:
    (tmp_path / "my-package").mkdir()
    (tmp_path / "my-package" / "__init__.py").write_text(GOOD)
    (tmp_path / "my-notes").mkdir()
    (tmp_path / "read-me.txt").write_text("")
    registry = PluginRegistry([str(tmp_path)])
    [failure] = registry.failures()
    assert failure.endswith("my-package cannot be the name of a module: rename it to my_package")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("class FaultyConnector(SourceConnector): ...", "has no task: write `task = ...` in the class"),
        ("class FaultyConnector(SinkConnector): ...", "with the name of its SinkTask"),
        (
            "class FaultyConnector(SinkConnector):\n    task = Reads",
            "has the task Reads, which is no SinkTask: derive it from SinkTask",
        ),
        ("class FaultyConnector(SourceConnector):\n    task = Reads()", "which is no SourceTask"),
        (
            "class Empty(SourceTask): ...\nclass FaultyConnector(SourceConnector):\n    task = Empty",
            "Empty, the task of FaultyConnector",
        ),
        (
            "class Empty(SourceTask): ...\nclass FaultyConnector(SourceConnector):\n    task = Empty",
            "does not define poll",
        ),
        (
            "class Full(Reads):\n    def __init__(self, path, *rest, depth=1): ...\n"
            "class FaultyConnector(SourceConnector):\n    task = Full",
            "is created without arguments, but its __init__ needs path: prepare it in `start`",
        ),
        ("class FaultyConnector(Connector): ...", "derives from Connector: derive it from SourceConnector"),
        ("class FaultyConnector(DataFrameConnector): ...", "does not define read and splits"),
    ],
)
def test_connector_that_cannot_run_is_refused_on_look_up(tmp_path: Path, body: str, fault: str) -> None:
    module = f"fp_faulty_{abs(hash((body, fault)))}"
    head = """
        from fencepost.api import Connector, DataFrameConnector, SinkConnector, SourceConnector, SourceTask

        class Reads(SourceTask):
            def poll(self):
                return None

        """
    (tmp_path / f"{module}.py").write_text(f"{textwrap.dedent(head)}\n{body}\n")
    text = said(tmp_path, "Faulty")
    assert fault in text
    assert f"FaultyConnector ({tmp_path / module}.py)" in text


def test_every_built_in_connector_can_run() -> None:
    registry = PluginRegistry()
    from fencepost.plugin.kind import BUILT_IN
    from fencepost.plugin.mistake import class_fault

    for name in BUILT_IN[PluginKind.CONNECTOR]:
        assert class_fault(registry.find(PluginKind.CONNECTOR, name)) is None
