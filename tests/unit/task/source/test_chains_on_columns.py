"""Batches of a source that pass transforms as columns: what is sent, and what is recorded about it, does not change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import FatalError, Record, RecordError, RetriableError, SourceRecord, Transform
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.plain import SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain, Link
from fencepost.plugin import find
from fencepost.record import Batch, BinaryColumn, PolledAt, PositionColumn, RecordColumns, Repeated, Utf8Column
from fencepost.record.schema import STRING
from fencepost.task.control import Control
from fencepost.task.conversion import columns as conversion
from fencepost.task.conversion.columns import PART
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.source.processing import Processor
from support.column_records import OneByOne, Watched, batch_of, batches

LINES = (
    ("HoistField$Value", {"field": "line"}),
    ("InsertField$Value", {"topic.field": "topic"}),
    ("ReplaceField$Value", {"renames": "line:at"}),
    ("Cast$Value", {"spec": "at:int64"}),
    ("TimestampConverter$Value", {"field": "at", "target.type": "string", "format": "HH:mm:ss.SSS"}),
)
ALL = "org.apache.kafka.connect.transforms."


def links(*steps: tuple[str, Mapping[str, str]]) -> list[Link]:
    return [Link(name, find("transform", ALL + name)(settings)) for name, settings in steps]


def dropping(topic: str) -> Link:
    predicate = find("predicate", "TopicNameMatches")({"pattern": topic})
    return Link("drop", find("transform", "Filter")({}), predicate)


def processor(chain: Chain, *, tolerates_all: bool = False, keys: Any = StringConverter) -> Processor:
    tolerance = Tolerance(tolerates_all, 0, 1, False, False, Control(is_paused=False), "c-0")
    value = JsonConverter({"converter.type": "value", "schemas.enable": "false"})
    return Processor(chain, keys({"converter.type": "key"}), value, SimpleHeaderConverter({}), tolerance)


def polled(lines: Sequence[str], topics: Sequence[str] | None = None) -> Batch:
    count = len(lines)
    column = Utf8Column(BinaryColumn(pa.array([line.encode() for line in lines], pa.binary())))
    positions = PositionColumn("position", [14 * (n + 1) for n in range(count)])
    return Batch(topics or Repeated("t", count), column, Repeated({"f": 1}, count), positions, STRING)


def sent(own: Processor, batch: Batch) -> OutgoingColumns:
    outgoing = own.process(batch)
    assert isinstance(outgoing, OutgoingColumns)
    return outgoing


def rows(outgoing: OutgoingColumns, count: int) -> list[Any]:
    """Return everything about each record that is sent, with its place in the polled batch."""
    size = len(outgoing)
    return list(
        zip(
            range(count) if outgoing.sources is None else outgoing.sources,
            outgoing.topics,
            outgoing.values,
            outgoing.keys or [None] * size,
            outgoing.partitions or [None] * size,
            outgoing.timestamps or [None] * size,
            map(list, outgoing.headers or [()] * size),
            strict=True,
        )
    )


def test_lines_are_sent_as_json_without_a_record() -> None:
    chain = Watched(links(*LINES))
    outgoing = sent(processor(chain), polled(["1764171585123", "0"]))
    assert list(outgoing.values) == [b'{"at":"15:39:45.123","topic":"t"}', b'{"at":"00:00:00.000","topic":"t"}']
    assert (outgoing.sources, outgoing.headers, outgoing.is_plain, chain.records) == (None, None, True, 0)


def test_bad_record_drops_only_itself_when_errors_are_tolerated() -> None:
    lines = [str(1_764_171_585_123 + n) for n in range(20 * PART)]
    bad = 7 * PART + 3
    whole = sent(processor(Watched(links(*LINES))), polled(lines))
    chain = Watched(links(*LINES))
    own = processor(chain, tolerates_all=True)
    outgoing = sent(own, polled([*lines[:bad], "no number", *lines[bad + 1 :]]))
    assert rows(outgoing, 0) == [row for row in rows(whole, len(lines)) if row[0] != bad]
    assert own.tolerance.counters.skipped == 1
    assert chain.records == 1
    assert rows(sent(own, polled(lines)), len(lines)) == rows(whole, len(lines))
    assert chain.records == 1  # the speed is back


def test_a_bad_record_fails_the_task_when_errors_are_not_tolerated() -> None:
    with pytest.raises(
        FatalError, match=r"stage 'TRANSFORMATION' failed for the record for .*'position': 28\}.*no number"
    ):
        processor(Chain(links(*LINES))).process(polled(["1", "no number", "3"]))


def test_fully_filtered_batch_sends_no_records_but_moves_its_offsets() -> None:
    chain = Watched([*links(*LINES), dropping("t")])
    batch = polled(["1", "2"])
    outgoing = sent(processor(chain), batch)
    assert (len(outgoing), list(outgoing.sources or ()), chain.records) == (0, [], 0)
    assert batch.last_offsets() == [({"f": 1}, {"position": 28})]


def test_filtered_records_leave_gaps_in_the_sources() -> None:
    chain = Watched([dropping("drop"), *links(*LINES)])
    outgoing = sent(processor(chain), polled(["1", "2", "3"], ["t", "drop", "t"]))
    assert list(outgoing.sources or ()) == [0, 2]
    assert [value[:14] for value in outgoing.values if value] == [b'{"at":"00:00:0'] * 2
    assert chain.records == 0


def test_records_divided_by_a_predicate_stay_in_order() -> None:
    marks = Link(
        "m",
        find("transform", "InsertField$Value")({"static.field": "m", "static.value": "x"}),
        find("predicate", "TopicNameMatches")({"pattern": "u"}),
    )
    chain = Watched([*links(*LINES[:1]), marks])
    outgoing = sent(processor(chain), polled(["1", "2", "3"], ["t", "u", "t"]))
    assert list(outgoing.values) == [b'{"line":"1"}', b'{"line":"2","m":"x"}', b'{"line":"3"}']
    assert (list(outgoing.topics), outgoing.sources, chain.records) == (["t", "u", "t"], None, 0)


def test_poll_time_is_visible_to_transforms_but_not_sent_as_record_time() -> None:
    chain = Watched(
        [
            dropping("drop"),
            *links(
                ("HoistField$Value", {"field": "line"}),
                ("InsertField$Value", {"timestamp.field": "at"}),
                ("TimestampConverter$Value", {"field": "at", "target.type": "unix"}),
            ),
        ]
    )
    batch = replace(polled(["1", "2", "3"], ["t", "drop", "t"]), timestamps=PolledAt(1_764_171_585_123, 3))
    for part in (batch, batch.slice(0, 1)):
        outgoing = sent(processor(chain), part)
        assert outgoing.values[0] == b'{"line":"1","at":1764171585123}'
        assert (outgoing.timestamps, outgoing.is_plain, chain.records) == (None, True, 0)


class Flaky(Transform):
    """Works on batches, but its service is away; record by record it is tried again."""

    calls = 0

    def apply(self, record: Record) -> Record | None:
        self.calls += 1
        if self.calls == 1:
            raise RetriableError("away")
        return record

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        raise RetriableError("away")


def test_absent_service_is_retried_record_by_record() -> None:
    own = processor(Chain([Link("f", Flaky({}))]))
    own.tolerance.retry_timeout_ms = 60_000
    assert len(sent(own, polled(["1", "2"]))) == 2
    assert own.tolerance.counters.retries == 1


class Unseen(Transform):
    """Filters values that it has seen."""

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self.seen: set[Any] = set()

    def apply(self, record: Record) -> Record | None:
        is_new = record.value not in self.seen
        self.seen.add(record.value)
        return record if is_new else None


def test_transform_gets_a_record_once_when_a_later_transform_is_retried() -> None:
    own = processor(Chain([Link("u", Unseen({})), Link("f", Flaky({}))]))
    own.tolerance.retry_timeout_ms = 60_000
    assert list(sent(own, polled(["1", "2", "1"])).values) == [b'"1"', b'"2"']
    assert own.tolerance.counters.retries == 1


class Refused(StringConverter):
    """Refuses a key when it sees it in a record, and when it sees it in a column."""

    def from_connect_data(self, topic: str, schema: Any, value: Any) -> bytes | None:
        if value == "bad":
            raise RecordError("bad key")
        return super().from_connect_data(topic, schema, value)

    def from_column(self, schema: Any, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        if "bad" in values:
            raise RecordError("bad key")
        return super().from_column(schema, values)


def test_converter_that_raises_for_a_column_is_called_for_each_record() -> None:
    records = [SourceRecord({"p": 1}, {"n": n}, "t", {"a": n}, key="bad" if n == 1 else "k") for n in range(3)]
    [batch] = Batch.of_records(records)
    own = processor(Chain(), tolerates_all=True, keys=Refused)
    assert [row[0] for row in rows(sent(own, batch), 3)] == [0, 2]
    assert own.tolerance.counters.skipped == 1


def test_a_key_that_is_null_in_all_records_is_written_with_its_schema() -> None:
    record = SourceRecord({"p": 1}, {"n": 1}, "t", {"a": 1}, key_schema=STRING.optional())
    own = processor(Chain(), keys=JsonConverter)
    assert list(sent(own, Batch.of_records([record])[0]).keys or ()) == [
        b'{"schema":{"type":"string","optional":true},"payload":null}'
    ]


@dataclass
class Letters:
    """Keeps the dead letters of the last batch, each with its place in the batch."""

    found: list[Any]

    def clear(self) -> None:
        self.found.clear()

    def tell(self, stage: str, error: Exception, record: SourceRecord) -> None:
        self.found.append((stage, str(error), record.source_offset))

    def at(self, index: int) -> None:
        if self.found and len(self.found[-1]) == 3:
            assert self.found[-1][2] == {"n": index}
            self.found[-1] += (index,)

    def take(self) -> None:
        return None


@given(batches(), st.sampled_from(range(4)), st.sampled_from((2, PART)))
def test_columns_and_single_records_send_the_same(columns: RecordColumns, which: int, part: int) -> None:
    steps = (
        links(("InsertField$Value", {"partition.field": "p", "static.field": "s", "static.value": "v"})),
        links(("HoistField$Value", {"field": "v"}), ("InsertHeader", {"header": "k", "value.literal": "1"})),
        [dropping("drop-.*"), *links(("ValueToKey", {"fields": "a"}), ("ReplaceField$Value", {"exclude": "b"}))],
        [],
    )[which]
    batch = batch_of(columns)
    fast, slow = (processor(kind(steps), tolerates_all=True, keys=JsonConverter) for kind in (Chain, OneByOne))
    letters: list[list[Any]] = [[], []]
    for own, found in zip((fast, slow), letters, strict=True):
        kept = Letters(found)
        own.letters = kept  # type: ignore[assignment]
        own.tolerance.tell = kept.tell
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversion, "PART", part)
        assert rows(sent(fast, batch), len(batch)) == rows(sent(slow, batch), len(batch))
    assert letters[0] == letters[1]
    assert fast.tolerance.counters.skipped == slow.tolerance.counters.skipped == len(letters[0])
