"""`fencepost dev --reload`: a change of a plug-in starts the worker again; anything else does not."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from fencepost.cli.cluster import worker as module
from fencepost.cli.cluster.worker import plugin_files, reload
from fencepost.testing import eventually

WORKER = """
import pathlib, signal, sys, threading
with open(sys.argv[1], "a") as starts:
    starts.write(pathlib.Path(sys.argv[2]).read_text())
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
over.wait(60)
"""


class Reloading:
    """A worker that notes at each start what its plug-in says, and reloads it."""

    def __init__(self, directory: Path) -> None:
        self.plugins, self.starts = directory / "plugins", directory / "starts"
        self.plugins.mkdir()
        self.plugin = self.plugins / "feed.py"
        self.plugin.write_text("1")
        self.is_over = threading.Event()
        self.command = [sys.executable, "-c", WORKER, str(self.starts), str(self.plugin)]
        self.pool = ThreadPoolExecutor(1)

    def run(self) -> "Future[int]":
        return self.pool.submit(reload, self.command, lambda: plugin_files(str(self.plugins)), self.is_over, 0.01)

    def has_started(self, said: str) -> None:
        eventually(lambda: self.starts.exists() and self.starts.read_text() == said, within_s=60)


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[Reloading]:
    made = Reloading(tmp_path)
    yield made
    made.is_over.set()
    made.pool.shutdown()


def test_reload_restarts_the_worker_when_a_plugin_changes(
    reloading: Reloading, capsys: pytest.CaptureFixture[str]
) -> None:
    running = reloading.run()
    reloading.has_started("1")
    (reloading.plugins / "notes.txt").write_text("no plug-in")
    reloading.plugin.write_text("23")
    reloading.has_started("123")
    reloading.is_over.set()
    running.result(60)
    assert reloading.starts.read_text() == "123"
    assert f"{reloading.plugin}   has changed" in capsys.readouterr().out


def test_reload_ends_with_the_workers_exit_code(reloading: Reloading) -> None:
    reloading.command = [sys.executable, "-c", "raise SystemExit(3)"]
    assert reloading.run().result(60) == 3


def test_reload_watches_files_of_installed_plugin_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "fp_watched_package"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/task.py", "data.csv"):
        (package / name).write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    entry = EntryPoint("watched", "fp_watched_package.inner:Connector", "fencepost.connectors")
    monkeypatch.setattr(module, "entry_points", lambda: EntryPoints([entry]))
    assert {path.name for path in plugin_files("")} == {"__init__.py", "task.py"}
    assert {path.name for path in plugin_files(f"{package / 'inner'}, /absent")} == {"__init__.py", "task.py"}
