"""FileStreamSink: the content of the file."""

import errno
import fcntl
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pytest

from fencepost.api import FatalError, RetriableError, Schema, SchemaType, SinkBatch, SinkRecord, Utf8Column
from fencepost.builtin.connector.file_stream import sink
from fencepost.builtin.connector.file_stream.lines import joined_lines
from fencepost.builtin.connector.file_stream.sink import FileStreamSinkConnector, FileStreamSinkTask
from fencepost.record import BinaryColumn, Repeated, TopicPartition


def task(path: Path) -> FileStreamSinkTask:
    made = FileStreamSinkTask()
    made.initialize(None, FileStreamSinkConnector({"file": str(path)}))  # type: ignore[arg-type]
    made.start()
    return made


def batch(*values: Any, schema: Schema | None = None) -> SinkBatch:
    return SinkBatch.of_records([SinkRecord("t", 0, n, value, schema) for n, value in enumerate(values)])


def test_file_sink_writes_values_as_java_prints_them(tmp_path: Path) -> None:
    path = tmp_path / "out"
    sink = task(path)
    sink.put(batch("a", None, 7, True, {"k": [1, None]}))
    struct = Schema.struct({"n": Schema.of(SchemaType.INT32)})
    sink.put(batch({"n": 1}, schema=struct))
    sink.put(batch(b"\x01\xff"))
    assert path.read_text() == "a\nnull\n7\ntrue\n{k=[1, null]}\nStruct{n=1}\n01ff\n"
    sink.flush({})
    sink.stop()


def test_file_sink_writes_nested_bytes_in_hexadecimal(tmp_path: Path) -> None:
    path = tmp_path / "out"
    sink = task(path)
    struct = Schema.struct({"data": Schema.of(SchemaType.BYTES), "n": Schema.of(SchemaType.INT32)})
    sink.put(batch({"data": b"\x01\xff", "n": 1}, {"data": b"", "n": 2}, schema=struct))
    sink.put(batch([b"\x0a"], {"k": b"\xff"}))
    assert path.read_text() == "Struct{data=01ff,n=1}\nStruct{data=,n=2}\n[0a]\n{k=ff}\n"
    sink.stop()


def passing(raw: Sequence[bytes]) -> SinkBatch:
    """Return a batch of text that nobody has looked at."""
    count = len(raw)
    nothing = Repeated(None, count)
    return SinkBatch(
        Repeated("t", count),
        Repeated(0, count),
        range(count),
        Utf8Column(raw),
        nothing,
        nothing,
        nothing,
        nothing,
        Repeated(TopicPartition("t", 0), count),
    )


def test_file_sink_does_not_decode_text_that_passes_through(tmp_path: Path) -> None:
    path = tmp_path / "out"
    task(path).put(passing([b"\xc3\xa4", b"", b"b"]))
    assert path.read_bytes() == b"\xc3\xa4\n\nb\n"


class Untouched(BinaryColumn):
    """A column at whose values nobody may look."""

    def _looked_at(self) -> list[bytes | None]:
        raise AssertionError("made objects of all values")


@pytest.mark.parametrize("most_bytes", [1 << 30, 7, 1])
def test_joined_lines_are_split_at_the_column_size_limit(most_bytes: int) -> None:
    pieces = joined_lines(pa.array([b"\xc3\xa4", b"", b"b"], pa.binary()), most_bytes)
    assert b"".join(pieces) == b"\xc3\xa4\n\nb\n"
    assert all(len(piece) <= max(most_bytes, len(b"\xc3\xa4")) for piece in pieces)


def test_file_sink_joins_untouched_columns_without_reading_values(tmp_path: Path) -> None:
    """The column is sliced and has several chunks."""
    path = tmp_path / "out"
    piece = pa.array([b"left out", b"\xc3\xa4", b"", b"b"], pa.binary())
    task(path).put(passing(Untouched(pa.chunked_array([piece[1:], piece[2:3], piece[:0], piece[3:]]))))
    assert path.read_bytes() == b"\xc3\xa4\n\nb\n\nb\n"


def test_file_sink_ends_a_half_line_of_a_killed_task_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("1\n2\n3")
    task(path).put(batch("4"))
    assert path.read_text() == "1\n2\n3\n4\n"
    task(path).put(batch("5"))
    assert path.read_text() == "1\n2\n3\n4\n5\n"


def test_file_sink_fails_and_names_a_file_it_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match=r"file=.*no-such.*cannot be written"):
        task(tmp_path / "no-such" / "out")


def test_file_sink_writes_nothing_for_an_empty_batch(tmp_path: Path) -> None:
    path = tmp_path / "out"
    task(path).put(batch())
    assert path.read_bytes() == b""


@pytest.mark.parametrize("in_columns", [False, True])
def test_file_sink_does_not_mix_lines_of_two_tasks_with_large_batches(tmp_path: Path, in_columns: bool) -> None:
    """Two tasks open the file separately, in one process or in two."""
    path = tmp_path / "out"
    rounds, count = 60, 500

    def write(letter: bytes) -> None:
        sink = task(path)
        values = [letter * 1000] * count
        raw = BinaryColumn(pa.array(values, pa.binary())) if in_columns else values
        for _ in range(rounds):
            sink.put(passing(raw))
        sink.stop()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, [b"a", b"b"]))
    found = Counter((len(line), line[:1] + line[-1:]) for line in path.read_bytes().split(b"\n"))
    assert found == {(1000, b"aa"): rounds * count, (1000, b"bb"): rounds * count, (0, b""): 1}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "LONGEST_WAIT_S", 0.01)


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[IO[bytes]]:
    """The file as it is open in a process that was stopped with the lock in its hands."""
    with (tmp_path / "out").open("ab", buffering=0) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield held


@pytest.mark.usefixtures("impatient")
def test_file_sink_writes_even_if_a_frozen_task_holds_the_lock(tmp_path: Path, frozen: IO[bytes]) -> None:
    sink = task(tmp_path / "out")
    sink.put(batch("a"))
    sink.put(batch("b", "c"))
    frozen.write(b"of the frozen one\n")
    assert (tmp_path / "out").read_text() == "a\nb\nc\nof the frozen one\n"


@pytest.mark.usefixtures("impatient")
def test_file_sink_without_the_lock_rewrites_a_line_that_follows_a_half_line(tmp_path: Path, frozen: IO[bytes]) -> None:
    frozen.write(b"half")
    task(tmp_path / "out").put(batch("a", "b"))
    assert (tmp_path / "out").read_text() == "halfa\nb\n\na\nb\n"


@pytest.mark.usefixtures("impatient", "frozen")
def test_file_sink_on_a_network_file_system_never_writes_without_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "is_local", lambda path: False)
    with pytest.raises(RetriableError, match=r"file=.*out: another task has kept it locked for 0.01 s"):
        task(tmp_path / "out").put(batch("a"))
    assert (tmp_path / "out").read_bytes() == b""


def test_file_sink_releases_the_lock_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, pieces: Sequence[bytes]) -> int:
        os.write(descriptor, pieces[0][:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "out"
    sink = task(path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", full)
        with pytest.raises(FatalError, match=r"file=.*out: it cannot be written: No space left on device"):
            sink.put(batch("a line"))
    task(path).put(batch("b"))
    assert path.read_text() == "a l\nb\n"


def test_file_sink_completes_partial_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.writev
    monkeypatch.setattr(os, "writev", lambda d, pieces: whole(d, [bytes(pieces[0])[:7]]))
    values = [b"%d" % n for n in range(100)]
    for raw in (values, BinaryColumn(pa.array(values, pa.binary()))):
        task(tmp_path / "out").put(passing(raw))
    assert (tmp_path / "out").read_bytes().split(b"\n") == [*values, *values, b""]


def test_file_sink_writes_to_a_named_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out")
    reader = os.open(tmp_path / "out", os.O_RDONLY | os.O_NONBLOCK)
    sink = task(tmp_path / "out")
    sink.put(batch("a", "b"))
    sink.flush({})
    assert os.read(reader, 100) == b"a\nb\n"
    os.close(reader)


def test_file_sink_prints_whole_lines_to_standard_output_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of a slot share its output."""
    calls: list[bytes] = []

    class Output(io.BytesIO):
        def write(self, data: Any) -> int:
            calls.append(bytes(data))
            return len(data)

    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(Output()))
    sink = FileStreamSinkTask()
    sink.initialize(None, FileStreamSinkConnector({}))  # type: ignore[arg-type]
    sink.start()
    sink.put(batch("a", "b"))
    sink.flush({})
    sink.stop()
    assert calls == [b"a\nb\n"]
