"""A files sink in a store without rename: files are written to another file system, and copied to be shown."""

import glob
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from once_store import OnceStore

from fencepost.api import ConfigError, Epoch, OffsetRange
from fencepost.builtin.connector.file_system import DirectoryError
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.builtin.connector.files.store import FilesCopy, HadoopFiles, LocalFiles, mark_of
from fencepost.spark.session.session import SparkRuntime
from fencepost.testing import eventually
from support.hadoop import hadoop_files

ROWS = 1_000


@pytest.fixture(scope="module")
def once(runtime: SparkRuntime) -> OnceStore:
    return OnceStore(runtime.session)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def sink(once: OnceStore, out: Path, tmp_path: Path) -> FilesSink:
    made = FilesSink({"name": "c", "path": f"once:{out}", "aside.path": str(tmp_path / "aside")})
    made.owner = "cluster/connect-c"
    return made


def epoch_of(number: int) -> Epoch:
    """Return an epoch of two partitions, with `ROWS` records each."""
    start = (number - 1) * ROWS
    return Epoch(number, tuple(OffsetRange("t", p, start, start + ROWS) for p in range(2)), f"e{number}")


def rows_of(session: Any, number: int) -> Any:
    first = (number - 1) * 2 * ROWS
    return session.range(first, first + 2 * ROWS, 1, 2)


def shown(out: Path) -> list[int]:
    """Return all rows, as a reader finds them."""
    return [n for path in sorted(glob.glob(f"{out}/*.parquet")) for n in pq.ParquetFile(path).read()["id"].to_pylist()]


@pytest.fixture
def listing(out: Path) -> Iterator[list[list[int]]]:
    """Lists and reads the directory all the time; gives what was seen each time."""
    seen: list[list[int]] = []
    trouble: list[Exception] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.wait(0.005):
            try:
                seen.append(shown(out))
            except Exception as error:  # a file that is half there, for one
                trouble.append(error)
                return

    thread = threading.Thread(target=read)
    thread.start()
    yield seen
    is_over.set()
    thread.join(30)
    assert not trouble


@pytest.mark.parametrize("fault", ["write", "close"])
def test_e17_a_reader_sees_each_record_once_when_a_copy_fails(
    runtime: SparkRuntime, once: OnceStore, sink: FilesSink, out: Path, listing: list[list[int]], fault: str
) -> None:
    session = runtime.session
    for number in range(1, 4):
        token = sink.write(session, rows_of(session, number), epoch_of(number))
        before = shown(out)
        with once.failing(fault), pytest.raises(DirectoryError, match=r"cannot be published: .*(lost|busy)"):
            sink.publish(session, epoch_of(number), token)
        assert shown(out) == before
        for _ in range(2):  # whoever takes over, and a start that was replaced
            sink.publish(session, epoch_of(number), token)
            assert sorted(shown(out)) == list(range(2 * ROWS * number))
        sink.published(session, epoch_of(number), token)
    assert len(list(out.glob("*.parquet"))) == 6
    assert not list(Path(str(sink.aside_path)).rglob("*.parquet"))
    assert not list(out.glob(".fencepost*"))
    eventually(lambda: len(listing[-1]) == 6 * ROWS)
    assert all(len(set(seen)) == len(seen) for seen in listing)
    lengths = [len(seen) for seen in listing]
    assert lengths == sorted(lengths)


def test_e17_a_kill_between_copy_and_removal_shows_no_record_twice(
    runtime: SparkRuntime, sink: FilesSink, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = runtime.session
    token = sink.write(session, rows_of(session, 1), epoch_of(1))

    def killed(self: HadoopFiles, files: object, are_shown: bool) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(HadoopFiles, "sync", killed)
        with pytest.raises(KeyboardInterrupt):
            sink.publish(session, epoch_of(1), token)
    assert len(shown(out)) == ROWS
    sink.started(session, 1, {token})
    sink.publish(session, epoch_of(1), token)
    assert sorted(shown(out)) == list(range(2 * ROWS))
    taken = sorted(out.glob("*.parquet"))[0]
    taken.unlink()  # a reader that takes files away
    sink.publish(session, epoch_of(1), token)
    assert len(shown(out)) == ROWS


def test_no_file_is_ever_replaced_by_a_copy(runtime: SparkRuntime, once: OnceStore, out: Path, tmp_path: Path) -> None:
    session, aside = runtime.session, LocalFiles(str(tmp_path), tmp_path)
    copy = FilesCopy(session, aside, hadoop_files(session, f"once:{out}"))
    for _ in range(2):
        aside.write("a", "one\n")
        copy.move("a", "x/a")
        copy.move("a", "x/a")  # shown before, as its mark says
        assert ((out / "x/a").read_text(), (tmp_path / "a").exists()) == ("one\n", False)
    aside.write("a", "two\n")
    with pytest.raises(DirectoryError, match="already exists with other contents"):
        copy.move("a", "x/a")
    assert ((out / "x/a").read_text(), (tmp_path / "a").read_text()) == ("one\n", "two\n")
    assert [each.name for each in (out / "x").iterdir()] == ["a"]
    for name in ("a", mark_of("a")):
        (tmp_path / name).unlink()
    copy.move("a", "x/a")  # what is there is the best that is known
    (out / "x/a").unlink()
    with pytest.raises(DirectoryError, match="a is missing, and was not published"):
        copy.move("a", "x/a")


def test_nothing_is_copied_where_unfinished_files_are_visible(runtime: SparkRuntime, out: Path, tmp_path: Path) -> None:
    sink = FilesSink({"name": "c", "path": str(out), "aside.path": str(tmp_path / "aside")})
    with pytest.raises(ConfigError, match=r"^aside\.path: .*shows files while they are written.*remove aside\.path"):
        sink.started(runtime.session, 1, ())
    assert not out.exists()
