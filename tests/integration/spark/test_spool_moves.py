"""Files that are moved, shown or deleted while writers and crashes come in between: none is lost, or left half-way."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import Split
from fencepost.builtin.connector.file_system import DirectoryError, FoundFile, SparkFileSystem
from fencepost.builtin.connector.files.store import HadoopFiles
from fencepost.builtin.connector.spool.source import SpoolDirectorySource
from fencepost.spark.session.session import SparkRuntime
from support.hadoop import hadoop_files

OLD, NEW = "id\n1\n", "id\n2\n3\n"


class CrashError(BaseException):
    """The process ends here."""


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    directory = tmp_path / "in[1]"
    directory.mkdir()
    (directory / "a.csv").write_text(OLD)
    return directory


@pytest.fixture
def done(tmp_path: Path) -> Path:
    return tmp_path / "done{2}"


@pytest.fixture
def far() -> Iterator[Path]:
    """A directory on another disk than the tests' own."""
    place = Path("/dev/shm") / f"fencepost-{os.getpid()}"
    if not place.parent.is_dir() or place.parent.stat().st_dev == Path("/tmp").stat().st_dev:
        pytest.skip("there is no second file system to write to")
    yield place
    for left in place.iterdir() if place.is_dir() else ():
        left.unlink()
    place.rmdir()


def mover(inbox: Path, done: Path) -> SpoolDirectorySource:
    settings = {"input.path": str(inbox), "topic": "t", "reader.header": "true", "input.schema": "id INT"}
    return SpoolDirectorySource(settings | {"finished.action": "move", "finished.path": str(done)})


def remover(inbox: Path, done: Path) -> SpoolDirectorySource:
    return SpoolDirectorySource({"input.path": str(inbox), "topic": "t", "finished.action": "delete"})


def only_split(connector: SpoolDirectorySource, runtime: SparkRuntime) -> Split:
    (split,) = connector.splits(runtime.session)
    return split


def contents(directory: Path) -> dict[str, str]:
    """Return the files of a directory, including hidden ones."""
    return {path.name: path.read_text() for path in directory.iterdir() if path.is_file()}


def put(inbox: Path, text: str) -> None:
    """Rename a new version into place."""
    (inbox / "_new").write_text(text)
    (inbox / "_new").rename(inbox / "a.csv")


def interrupted(monkeypatch: pytest.MonkeyPatch, at: int, act: Callable[[], None]) -> None:
    """Have `act` called before the rename number `at`."""
    rename, seen = SparkFileSystem.rename, iter(range(1, 100))

    def renamed(*given: Any) -> None:
        if next(seen) == at:
            act()
        rename(*given)

    monkeypatch.setattr(SparkFileSystem, "rename", renamed)


def crash() -> None:
    raise CrashError


@pytest.mark.parametrize("kind", [mover, remover])
def test_a_file_replaced_at_the_last_moment_is_left_alone(
    runtime: SparkRuntime, inbox: Path, done: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Any]
) -> None:
    connector = kind(inbox, done)
    split = only_split(connector, runtime)
    find = SparkFileSystem.find

    def found(system: SparkFileSystem, path: str) -> FoundFile | None:
        before = find(system, path)
        if before is not None and (inbox / "a.csv").exists() and (inbox / "a.csv").read_text() == OLD:
            put(inbox, NEW)
        return before

    monkeypatch.setattr(SparkFileSystem, "find", found)
    assert connector.finished(runtime.session, split, 1)
    assert contents(inbox) == {"a.csv": NEW}
    assert not done.exists() or contents(done) == {}


@pytest.mark.parametrize("at", [2, 3])
@pytest.mark.parametrize("place", ["done", "far"])
def test_a_move_that_a_crash_interrupted_is_completed_by_the_next_start(
    runtime: SparkRuntime,
    inbox: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    place: str,
    at: int,
) -> None:
    target = request.getfixturevalue(place)
    connector = mover(inbox, target)
    split = only_split(connector, runtime)
    with monkeypatch.context() as patched:
        interrupted(patched, at, crash)
        with pytest.raises(CrashError):
            connector.finished(runtime.session, split, 1)
    put(inbox, NEW)
    again = mover(inbox, target)
    for found in again.splits(runtime.session):
        if found.partition == split.partition:
            assert again.finished(runtime.session, found, 1)
    assert contents(inbox) == {"a.csv": NEW}
    assert contents(target) == {"a.csv": OLD}


def test_a_file_that_cannot_get_its_final_name_is_kept_and_moved_later(
    runtime: SparkRuntime, inbox: Path, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file under its name does not make it the one that can go."""

    def refuse() -> None:
        put(inbox, NEW)
        raise OSError("no")

    connector = mover(inbox, done)
    split = only_split(connector, runtime)
    with monkeypatch.context() as patched:
        interrupted(patched, 3, refuse)
        assert not connector.finished(runtime.session, split, 1)
    assert only_split(connector, runtime).size_bytes == len(NEW)
    assert contents(done) == {"a.csv": OLD}


def test_a_file_that_was_about_to_be_set_aside_is_read_again_after_a_crash(
    runtime: SparkRuntime, inbox: Path, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = mover(inbox, done)
    split = only_split(connector, runtime)
    with monkeypatch.context() as patched:
        interrupted(patched, 2, crash)
        with pytest.raises(CrashError):
            connector.set_aside(runtime.session, split, ValueError())
    assert "a.csv" not in contents(inbox)
    again = mover(inbox, done)
    assert only_split(again, runtime).partition == split.partition
    again.read(runtime.session, split)
    assert again.is_unchanged(runtime.session, split)
    assert contents(inbox) == {"a.csv": OLD}


def test_files_of_one_name_and_time_are_all_kept(runtime: SparkRuntime, inbox: Path, done: Path) -> None:
    connector = mover(inbox, done)
    for n in range(4):
        (inbox / "a.csv").write_text(f"{n}\n")
        os.utime(inbox / "a.csv", (1, 1))
        assert connector.finished(runtime.session, only_split(connector, runtime), 1)
    assert sorted(contents(done).values()) == ["0\n", "1\n", "2\n", "3\n"]


@pytest.fixture
def store(runtime: SparkRuntime, tmp_path: Path) -> HadoopFiles:
    """The store of a files sink on a file system that only Hadoop knows."""
    return hadoop_files(runtime.session, str(tmp_path))


def test_a_hadoop_store_shows_a_file_once_and_replaces_none(store: HadoopFiles, tmp_path: Path) -> None:
    store.write("aside/a", "one\n")
    store.write("aside/b/c", "two\n")
    assert store.files("aside") == {"a": 4, "b/c": 4}
    assert sorted(store.names("aside")) == ["a", "b"]
    for _ in range(2):  # a successor finds its mark
        store.move("aside/a", "shown/x/a")
        assert (tmp_path / "shown/x/a").read_text() == "one\n"
    store.write("aside/a", "one\n")  # written again
    store.move("aside/a", "shown/x/a")
    assert store.files("aside") == {"a.shown": 0, "b/c": 4}
    (tmp_path / "shown/x/a").unlink()  # a reader that takes files away
    store.move("aside/a", "shown/x/a")
    assert store.files("shown") == {}
    store.write("aside/e", "one\n")
    store.move("aside/e", "shown/x/a")
    store.write("aside/d", "longer than that\n")
    with pytest.raises(DirectoryError, match="already exists with other contents"):
        store.move("aside/d", "shown/x/a")
    assert (tmp_path / "shown/x/a").read_text() == "one\n"
    store.remove("aside")
    assert (store.names("aside"), store.read("aside/a")) == ([], None)
    with pytest.raises(DirectoryError, match="aside cannot be listed"):
        store.files("aside")
    with pytest.raises(DirectoryError, match="aside/f is missing, and was not published"):
        store.move("aside/f", "shown/x/f")


def test_an_error_of_hadoop_names_the_path_and_the_failed_operation(store: HadoopFiles, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("text")
    with pytest.raises(DirectoryError, match=r"/directory cannot be written: .*Is a directory"):
        store.write("directory", "text")
    with pytest.raises(DirectoryError, match=r"/directory cannot be read: "):
        store.read("directory")
    (tmp_path / "other").write_text("text")
    with pytest.raises(DirectoryError, match=r"/file/below cannot be published: "):
        store.move("other", "file/below")
