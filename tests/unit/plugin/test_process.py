"""A process reads its plug-ins when it starts, and its log says what it could not use."""

import logging
from pathlib import Path

import pytest

from fencepost import plugin as own_plugins
from fencepost.plugin import PluginKind, ensure_plugin_path, find, read_plugin_path, registry, use_plugin_path

GOOD = """
from fencepost.api import SourceConnector, SourceTask

class EarlyTask(SourceTask):
    def poll(self):
        return None

class EarlyConnector(SourceConnector):
    task = EarlyTask
"""


def test_plugins_are_read_at_once_and_load_failures_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(own_plugins, "_registry", own_plugins._registry)
    (tmp_path / "fp_early.py").write_text(GOOD)
    (tmp_path / "fp_early_broken.py").write_text("import no_such_module")
    (tmp_path / "fp-dashed.py").write_text(GOOD)
    with caplog.at_level(logging.WARNING):
        read_plugin_path([str(tmp_path), str(tmp_path / "missing")])
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert any("fp_early_broken.py could not be loaded: ModuleNotFoundError" in text for text in said)
    assert any("fp-dashed.py is not read" in text for text in said)
    assert any("missing is not a directory" in text for text in said)
    (tmp_path / "fp_early.py").write_text(GOOD.replace("EarlyConnector", "LaterConnector"))
    assert find(PluginKind.CONNECTOR, "Early").__name__ == "EarlyConnector"


def test_plugins_are_not_read_without_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_plugins, "_registry", own_plugins._registry)
    assert read_plugin_path(())._found is None


def test_plugin_directories_are_used_again_after_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_plugins, "_registry", own_plugins._registry)
    mine, other = tmp_path / "mine", tmp_path / "other"
    for directory in (mine, other):
        directory.mkdir()
    (mine / "fp_mine.py").write_text(GOOD)
    ensure_plugin_path([str(mine)])
    use_plugin_path([str(other)])
    ensure_plugin_path([str(mine)])
    assert find(PluginKind.CONNECTOR, "Early").__name__ == "EarlyConnector"


def test_registry_is_kept_for_the_same_directories_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_plugins, "_registry", own_plugins._registry)
    first = use_plugin_path([str(tmp_path)], ["-Xmx1g"])
    ensure_plugin_path([str(tmp_path)], ["-Xmx1g"])
    assert registry() is first
    ensure_plugin_path([str(tmp_path)])
    assert registry() is not first
