"""Headers on their way through a stream with the default converter."""

from typing import Any

import pytest

from fencepost.builtin.converter.plain import SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import HeaderBytes, SinkBatch, TopicPartition
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.source.processing import Processor
from fencepost.task.stream.processing import StreamProcessor

AS_THEY_ARE = (
    b"1.10",
    b"007",
    b"1e400",
    b'{ "a" : 1.50 }',
    b"\xff\x00",
    b"2026-01-02T03:04:05.678901Z",
    b"null",
    b"",
    None,
)


def through(pairs: list[HeaderBytes], change: Any = lambda batch: batch) -> list[HeaderBytes]:
    """Return the headers of a record that a stream passes on, once `change` had its batch."""
    tolerance = Tolerance(False, 0, 0, False, False, Control(is_paused=False), "c-0")
    key, value = (StringConverter({"converter.type": kind}) for kind in ("key", "value"))
    ways = [(Chain(), key, value, SimpleHeaderConverter({}), tolerance) for _ in range(2)]
    processor = StreamProcessor(
        TaskSpec("c", 0, 1, "i", {}, {}, output=OutputSpec({}, "")), SinkProcessor(*ways[0]), Processor(*ways[1])
    )
    batch = processor.read(Fetched([TopicPartition("t", 0)], [0], [1], [None], [b"v"], [pairs]))
    [sent] = processor.written(change(batch).to("out"))
    assert sent.headers is not None
    return list(sent.headers[0])


def test_unchanged_headers_are_written_with_their_original_bytes() -> None:
    pairs: list[HeaderBytes] = [("h", data) for data in AS_THEY_ARE]
    assert through(pairs) == pairs


def test_changed_header_is_written_with_its_new_value() -> None:
    def change(batch: SinkBatch) -> SinkBatch:
        [record] = batch
        first, second, third = record.headers
        third.value.append(3)
        return SinkBatch.of_records([record.replace(headers=(first, second._replace(value=5), third))])

    pairs: list[HeaderBytes] = [("a", b"1.10"), ("b", b"1.10"), ("c", b"[1, 2]")]
    assert through(pairs, change) == [("a", b"1.10"), ("b", b"5"), ("c", b"[1,2,3]")]


@pytest.mark.parametrize(
    ("text", "made"),
    [("1.0", "1"), ("1e5", "100000"), ("100.00", "100"), ("1e400", "1E+400"), (".5", ".5"), ("1.5e-3", "0.0015"),
     ("2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05.678901Z"), ("03:04:05.6Z", "03:04:05.6Z")],
)  # fmt: skip
def test_converted_header_keeps_its_value_but_not_the_notation_of_numbers(text: str, made: str) -> None:
    converter = SimpleHeaderConverter({})
    schema, value = converter.to_connect_header("t", "h", text.encode())
    assert converter.from_connect_header("t", "h", schema, value) == made.encode()
