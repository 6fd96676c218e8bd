"""FileStreamSink: what stands in the file."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.api import FatalError, Schema, SchemaType, SinkBatch, SinkRecord, Utf8Column
from fencepost.connector.file_stream_sink import FileStreamSinkConnector, FileStreamSinkTask
from fencepost.record import Repeated, TopicPartition


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


def test_text_that_only_passes_through_is_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "out"
    raw = [b"\xc3\xa4", b"", b"b"]
    nothing = Repeated(None, 3)
    place = TopicPartition("t", 0)
    columns = SinkBatch(
        Repeated("t", 3),
        Repeated(0, 3),
        range(3),
        Utf8Column(raw),
        nothing,
        nothing,
        nothing,
        nothing,
        Repeated(place, 3),
    )
    task(path).put(columns)
    assert path.read_bytes() == b"\xc3\xa4\n\nb\n"


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
