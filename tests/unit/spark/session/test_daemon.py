"""What Spark's Python workers search for modules, and in what order their daemon gets ready."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from fencepost.spark.session import daemon
from fencepost.spark.session.daemon import without_archives


def installation(directory: Path, *packages: str) -> tuple[str, list[str]]:
    """Make what `pip install pyspark` does. Returns the directory, and the archives that Spark puts in front."""
    for name in packages:
        (directory / name).mkdir(parents=True)
        (directory / name / "__init__.py").touch()
    library = directory / "pyspark" / "python" / "lib"
    return str(directory), [str(library / "pyspark.zip"), str(library / "py4j-0.10-src.zip")]


def test_archives_of_an_installation_that_is_searched_are_left_out(tmp_path: Path) -> None:
    site, archives = installation(tmp_path, "pyspark", "py4j")
    assert without_archives([*archives, "/own", site]) == ["/own", site]


def test_archives_stay_when_their_installation_is_not_searched(tmp_path: Path) -> None:
    _, archives = installation(tmp_path / "a", "pyspark", "py4j")
    other, _ = installation(tmp_path / "b", "pyspark", "py4j")
    assert without_archives([*archives, other]) == [*archives, other]


def test_archives_stay_when_the_installation_is_incomplete(tmp_path: Path) -> None:
    site, archives = installation(tmp_path, "pyspark")
    assert without_archives([*archives, site]) == [*archives, site]


def test_archives_of_other_packages_stay(tmp_path: Path) -> None:
    site, _ = installation(tmp_path, "pyspark", "py4j")
    assert without_archives(["/jobs/mine.zip", site]) == ["/jobs/mine.zip", site]


def test_daemon_shares_a_heap_before_imports_and_frees_memory_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A module may start a thread, whose heap would be its own. What is free before the fork is free in each worker."""
    done: list[str] = []
    monkeypatch.setattr(daemon.sys, "argv", ["daemon", "pyspark.worker"])
    monkeypatch.setattr(daemon.sys, "path", list(daemon.sys.path))
    monkeypatch.setattr(daemon, "lasting_imports", nullcontext)  # of the whole process, for all tests that follow
    monkeypatch.setattr(daemon, "share_a_heap", lambda: done.append("share"))
    monkeypatch.setattr(daemon, "give_back", lambda: done.append("give back"))
    monkeypatch.setattr(daemon.importlib, "import_module", lambda name: done.append(name) or Served(done))
    daemon.main()
    assert done[0] == "share"
    assert "fencepost.task.slot.slot" in done
    assert done[-3:] == ["give back", "pyspark.daemon", "serve"]


class Served:
    """PySpark's daemon, as far as it is called."""

    def __init__(self, done: list[str]) -> None:
        self.manager = lambda: done.append("serve")
