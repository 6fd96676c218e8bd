"""FileStreamSink: what stands in the file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api import FatalError, Schema, SchemaType, SinkBatch, SinkRecord, Utf8Column
from fencepost.connector import line_columns
from fencepost.connector.file_stream_sink import FileStreamSinkConnector, FileStreamSinkTask
from fencepost.record import BinaryColumn, Repeated, TopicPartition


def task(path: Path) -> FileStreamSinkTask:
    made = FileStreamSinkTask()
    made.initialize(None, FileStreamSinkConnector({"file": str(path)}))  # type: ignore[arg-type]
    made.start()
    return made


def batch(*values: Any, schema: Schema | None = None) -> SinkBatch:
    return SinkBatch.of_records([SinkRecord("t", 0, n, value, schema) for n, value in enumerate(values)])


def test_values_are_lines_as_java_prints_them(tmp_path: Path) -> None:
    path = tmp_path / "out"
    sink = task(path)
    sink.put(batch("a", None, 7, True, {"k": [1, None]}))
    struct = Schema.struct({"n": Schema.of(SchemaType.INT32)})
    sink.put(batch({"n": 1}, schema=struct))
    sink.put(batch(b"\x01\xff"))
    assert path.read_text() == "a\nnull\n7\ntrue\n{k=[1, null]}\nStruct{n=1}\n01ff\n"
    sink.flush({})
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


def test_text_that_only_passes_through_is_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "out"
    task(path).put(passing([b"\xc3\xa4", b"", b"b"]))
    assert path.read_bytes() == b"\xc3\xa4\n\nb\n"


class Untouched(BinaryColumn):
    """A column at whose values nobody may look."""

    def _looked_at(self) -> list[bytes | None]:
        raise AssertionError("made objects of all values")


@pytest.mark.parametrize("most_bytes", [1 << 30, 7, 1])
def test_lines_of_a_column_are_joined_without_a_look_at_any(
    tmp_path: Path, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a part of a column, in several pieces, and of more than one column of Arrow's can hold."""
    monkeypatch.setattr(line_columns, "_MOST_BYTES", most_bytes)
    path = tmp_path / "out"
    piece = pa.array([b"left out", b"\xc3\xa4", b"", b"b"], pa.binary())
    task(path).put(passing(Untouched(pa.chunked_array([piece[1:], piece[2:3], piece[:0], piece[3:]]))))
    assert path.read_bytes() == b"\xc3\xa4\n\nb\n\nb\n"


def test_a_line_that_a_killed_task_left_half_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("1\n2\n3")
    task(path).put(batch("4"))
    assert path.read_text() == "1\n2\n3\n4\n"
    task(path).put(batch("5"))
    assert path.read_text() == "1\n2\n3\n4\n5\n"


def test_a_file_that_cannot_be_written_fails_the_task_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match=r"file=.*no-such.*cannot be written"):
        task(tmp_path / "no-such" / "out")


def test_an_empty_batch_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out"
    task(path).put(batch())
    assert path.read_bytes() == b""
