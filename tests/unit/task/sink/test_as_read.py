"""A dead letter is what was read, byte for byte, whenever a task reports its record."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from fencepost.api import Converter, Header, SinkBatch, SinkRecord, TopicPartition
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.plain import ByteArrayConverter, SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.dead_letter.letter import DeadLetter
from fencepost.kafka.read.browse import TopicRecord
from fencepost.kafka.value.fetched import Fetched
from fencepost.plugin import find
from fencepost.task.control import Control
from fencepost.task.failure.dead_letter import header_choices
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.context import Reporter
from fencepost.task.sink.processing import Kept, SinkProcessor
from support.task_spec import lone_spec

P0, AGAIN = TopicPartition("t", 0), TopicPartition("again", 0)
HOIST = {"transforms": "h", "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value"}
HOIST |= {"transforms.h.field": "h"}
EXTRACT = {"transforms": "e", "transforms.e.type": "org.apache.kafka.connect.transforms.ExtractField$Value"}
EXTRACT |= {"transforms.e.field": "a"}
ROUTE = {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"}
ROUTE |= {"transforms.r.regex": ".*", "transforms.r.replacement": "routed"}
RESENT: list[tuple[str, bytes | None]] = [
    ("own", b"007"),
    ("__fencepost.resent.topic", b"orders"),
    ("__fencepost.resent.partition", b"3"),
    ("__fencepost.resent.offset", b"77"),
    ("__fencepost.resent.timestamp", b"2"),
]


def processor(
    config: dict[str, str], converter: Callable[[dict[str, str]], Converter], *, resend_topic: str = ""
) -> SinkProcessor:
    tolerance = Tolerance(True, 0, 1, False, False, Control(is_paused=False), "c-0")
    value = converter({"converter.type": "value", "schemas.enable": "false"})
    parts = StringConverter({"converter.type": "key"}), value, SimpleHeaderConverter({}), tolerance
    return SinkProcessor(Chain.from_config(config, find), *parts, resend_topic, Kept(read=True))


def fetched(value: bytes, headers: Any = None, place: TopicPartition = P0, offset: int = 4) -> Fetched:
    return Fetched([place] * 2, [offset, offset + 1], [5] * 2, [b"\xff"] * 2, [value] * 2, headers and [headers] * 2)


def content(record: SinkRecord) -> tuple[Any, ...]:
    headers = [(header.key, header.value) for header in record.headers]
    return record.at, record.kafka_offset, record.key, record.value, record.timestamp, headers


@pytest.mark.parametrize("headers", [None, [("id", b"007")]], ids=["columns", "records"])
@pytest.mark.parametrize(
    ("config", "converter"),
    [
        (HOIST, JsonConverter),
        (EXTRACT, JsonConverter),
        (ROUTE, StringConverter),
        ({}, StringConverter),
        ({}, ByteArrayConverter),
    ],
    ids=["hoist", "extract", "route", "text", "bytes"],
)
def test_dead_letter_of_an_earlier_batch_has_the_bytes_read(config: Any, converter: Any, headers: Any) -> None:
    own = processor(config, converter)
    batch = own.process(fetched(b'{"a": 1.50, "b": "\\u00e9"}', headers))
    first, changed = batch.record(1), batch.record(1).replace(value="of the task").to("elsewhere")
    packed = SinkBatch.joined([SinkBatch.of_records([*batch]), batch]).where([0, 0, 0, 1]).part(0, 1).record(0)
    in_time = content(own.raw_of(first))
    assert in_time == (P0, 5, b"\xff", b'{"a": 1.50, "b": "\\u00e9"}', 5, headers or [])
    own.process(fetched(b"{}", offset=8))
    for late in (first, changed, packed):
        assert content(own.raw_of(late)) == in_time
        [again, _] = own.process(
            Fetched([P0] * 2, [5, 6], [5, 5], *[[each] * 2 for each in in_time[2:4]], headers and [headers] * 2)
        )
        assert again == first


def test_record_of_an_earlier_batch_without_raw_bytes_is_converted() -> None:
    own = processor({}, StringConverter)
    own.process(fetched(b"a"))
    made = SinkRecord("t", 0, 1, "v", key="k", headers=(Header("h", "x"),), at=P0)
    assert content(own.raw_of(made)) == (P0, 1, b"k", b"v", None, [("h", b"x")])


class Letters:
    def __init__(self) -> None:
        self.taken: list[SinkRecord] = []

    def add(self, record: SinkRecord, stage: str, class_name: str, error: Exception) -> "Future[None]":
        self.taken.append(record)
        done: Future[None] = Future()
        done.set_result(None)
        return done


@pytest.mark.parametrize("config", [{}, ROUTE], ids=["plain", "route"])
def test_late_report_of_a_resent_record_names_its_first_origin(config: dict[str, str]) -> None:
    own = processor(config, StringConverter, resend_topic="again")
    letters = Letters()
    reporter = Reporter(own, letters)
    own.tolerance.tell = reporter.tell
    [record, _] = own.process(fetched(b"v", RESENT, AGAIN))
    own.process(fetched(b"w"))
    reporter.report(record, ValueError("late"))
    [letter] = letters.taken
    assert content(letter) == (AGAIN, 4, b"\xff", b"v", 5, RESENT)
    spec = lone_spec("c", {}, transactional_id="t", producer_conf={}, offsets_topic="o", plugins="")
    spec = replace(spec, input=replace(spec.input, resend_topic="again"))
    facts = {"topic": "again", "partition": "0", "offset": "4", "connector.name": "c"}
    context = [(f"__connect.errors.{name}", text.encode()) for name, text in facts.items()]
    [written, *_] = header_choices(spec, letter, RESENT, context)
    found = DeadLetter.of("dead", TopicRecord(0, 0, 9, letter.key, letter.value, tuple(written)))
    assert (found.origin, found.time_ms, found.headers) == (("orders", 3), 2, [("own", b"007")])
    assert found.resent_headers == RESENT


def test_a_report_without_a_dead_letter_topic_converts_nothing() -> None:
    """A converter could register a schema for the input topic."""
    own = processor({}, StringConverter)
    own.tolerance.tell = Reporter(own, None).tell
    own.process(fetched(b"a"))
    Reporter(own, None).report(SinkRecord("t", 0, 1, object(), at=P0), ValueError("late"))
    assert own.tolerance.counters.skipped == 1
