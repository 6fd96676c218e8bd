"""Dead letters of records that a stream's task has kept from an earlier batch."""

from typing import Any

import pytest

from fencepost.api import RecordError, SourceRecord
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.plain import SimpleHeaderConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import SinkRecord, TopicPartition
from fencepost.task.channel.task_spec import DeadLetterSpec, OutputSpec, TaskSpec
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.source.processing import Processor
from fencepost.task.stream.processing import StreamProcessor

P0 = TopicPartition("t", 0)


def fetched(value: bytes, offset: int) -> Fetched:
    return Fetched([P0], [offset], [1], [b"1"], [value])


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []

    def tell(self: Any, stage: str, error: Exception, record: SinkRecord | SourceRecord) -> None:
        found.append(record)

    monkeypatch.setattr("fencepost.task.failure.dead_letter_producer.TransactionDeadLetters.tell", tell)
    return found


def stream() -> StreamProcessor:
    tolerance = [Tolerance(True, 0, 0, False, False, Control(is_paused=False), "c-0") for _ in range(2)]
    key, value = (JsonConverter({"converter.type": kind, "schemas.enable": "false"}) for kind in ("key", "value"))
    ways = [(Chain(), key, value, SimpleHeaderConverter({}), each) for each in tolerance]
    letters = DeadLetterSpec("dead", 1, headers=True)
    spec = TaskSpec("c", 0, 1, "i", {}, {}, output=OutputSpec({}, ""), dead_letters=letters)
    return StreamProcessor(spec, SinkProcessor(*ways[0]), Processor(*ways[1]))


def test_dead_letter_of_an_earlier_batch_has_the_bytes_read(told: list[Any]) -> None:
    own = stream()
    batch = own.read(fetched(b'{"a": 1.50}', 4))
    record = batch.record(0)
    own.read(fetched(b"{}", 5))
    own.report(record, RecordError("late"))
    own.written([record.to("out", value=object())])
    own.written(batch.to("out", values=[object()]))
    assert [(each.at, each.kafka_offset, each.key, each.value) for each in told] == [(P0, 4, b"1", b'{"a": 1.50}')] * 3


def test_dead_letter_of_an_output_without_known_input_is_the_output(told: list[Any]) -> None:
    own = stream()
    own.read(fetched(b"{}", 4))
    made = SinkRecord("out", None, 3, object(), at=P0)
    own.written([made])
    assert [each.value for each in told] == [made.value]
