"""From a polled batch to what the producer takes."""

from typing import Any

import pytest

from fencepost.api import FatalError, Header, RecordError, SourceRecord, UnavailableError
from fencepost.builtin.converter.plain import ByteArrayConverter, SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.codec.committed import CopiedBatch
from fencepost.kafka.codec.decode import DecodedRecord, encoded
from fencepost.kafka.value.whole import PolledBatches, WholeBatches, WholeFetched
from fencepost.plugin import find
from fencepost.record import Batch, HeaderColumn, PositionColumn, Repeated, TopicPartition
from fencepost.record.schema import STRING
from fencepost.task.control import Control
from fencepost.task.delivery.outgoing import OutgoingBatches, OutgoingColumns
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.source.processing import Processor
from support.smt import DROP

ROUTER = {
    "transforms": "r",
    "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.r.regex": "(.*)",
    "transforms.r.replacement": "$1-routed",
}


class Picky(StringConverter):
    """Refuses the value `bad`."""

    def from_connect_data(self, topic: str, schema: Any, value: Any) -> bytes | None:
        if value == "bad":
            raise RecordError("does not fit")
        return super().from_connect_data(topic, schema, value)

    def from_column(self, schema: Any, values: Any) -> Any:
        return None if "bad" in values else super().from_column(schema, values)


class ByRecord(StringConverter):
    """Converts no whole column."""

    def from_column(self, schema: Any, values: Any) -> Any:
        return None


def processor(
    transforms: dict[str, str] | None = None,
    *,
    tolerates_all: bool = False,
    key_type: type[StringConverter] = StringConverter,
) -> Processor:
    tolerance = Tolerance(tolerates_all, 0, 1, False, False, Control(is_paused=False), "c-0")
    key = key_type({"converter.type": "key"})
    chain = Chain.from_config(transforms or {}, find)
    return Processor(chain, key, Picky({"converter.type": "value"}), SimpleHeaderConverter({}), tolerance)


def record(value: Any, topic: str = "t", **more: Any) -> SourceRecord:
    return SourceRecord({"f": 1}, {"n": 1}, topic, value, STRING, **more)


def processed(own: Processor, *records: SourceRecord) -> list[OutgoingColumns]:
    return [columns(own, batch) for batch in Batch.of_records(list(records))]


def columns(own: Processor, batch: Batch) -> OutgoingColumns:
    outgoing = own.process(batch)
    assert isinstance(outgoing, OutgoingColumns)
    return outgoing


def rows(outgoings: list[OutgoingColumns]) -> list[tuple[str, bytes | None, bytes | None]]:
    found = []
    for each in outgoings:
        keys = each.keys or [None] * len(each)
        found += list(zip(each.topics, keys, each.values, strict=True))
    return found


def test_a_batch_of_columns_stays_columns() -> None:
    batch = Batch.of_rows([{"v": "a"}, {"v": "b"}], topic="t", source_partition={}, source_offset=lambda row: {"n": 1})
    assert len(processor().process(batch)) == 2
    [outgoing] = processed(processor(), record("a"), record("b"))
    assert list(outgoing.values) == [b"a", b"b"]
    assert outgoing.sources is None


@pytest.mark.parametrize("transforms", [{}, ROUTER])
def test_columns_and_records_one_by_one_give_the_same(transforms: dict[str, str]) -> None:
    plain = [record("a", key="k", key_schema=STRING), record("b", key="l", key_schema=STRING, timestamp=5)]
    by_columns = processed(processor(transforms), *plain)
    one_by_one = processed(processor(transforms, key_type=ByRecord), *plain)
    assert all(outgoing.sources for outgoing in one_by_one)
    assert rows(by_columns) == rows(one_by_one)
    assert [list(o.timestamps or [None] * len(o)) for o in by_columns] == [list(o.timestamps or []) for o in one_by_one]


def test_headers_are_converted() -> None:
    [outgoing] = processed(processor(), record("a", headers=(Header("h", "x", STRING),)))
    assert outgoing.headers is not None
    assert list(outgoing.headers[0]) == [("h", b"x")]


def test_header_name_with_lone_surrogates_is_sent_with_question_marks() -> None:
    [outgoing] = processed(processor(), record("a", headers=(Header("\ud800x\udc00", "x", STRING),)))
    assert outgoing.headers is not None
    assert [name for name, _ in outgoing.headers[0]] == ["?x?"]
    assert outgoing.about_bytes() > 0


def test_filtered_records_are_left_out_and_sources_say_which_went() -> None:
    own = processor(DROP)
    outgoings = processed(own, record("a"), record("b", "drop-1"), record("c"))
    assert [value for _, _, value in rows(outgoings)] == [b"a", b"c"]
    assert own.tolerance.counters.skipped == 0


def test_unconvertible_record_fails_the_task() -> None:
    with pytest.raises(FatalError):
        processed(processor(), record("a"), record("bad"))


def test_a_tolerated_record_is_dropped_alone() -> None:
    own = processor(tolerates_all=True)
    [outgoing] = processed(own, record("a"), record("bad"), record("c"))
    assert list(outgoing.values) == [b"a", b"c"]
    assert outgoing.sources == [0, 2]
    assert own.tolerance.counters.skipped == 1


def test_tombstone_stays_a_tombstone() -> None:
    [outgoing] = processed(processor(), record(None))
    assert list(outgoing.values) == [None]


RAW = [[("trace", b"\x00\xff"), ("none", None)], []]


def bytes_batch(**more: Any) -> Batch:
    offsets = [{"offset": 4}, {"offset": 6}]
    return Batch(["t", "t"], [b"a", None], [{"p": 0}, {"p": 0}], offsets, headers=HeaderColumn(RAW), **more)


def bytes_processor() -> Processor:
    own = processor()
    own.key_converter = own.value_converter = own.header_converter = ByteArrayConverter({"converter.type": "value"})
    return own


def test_byte_headers_pass_unchanged_when_the_converter_keeps_bytes() -> None:
    outgoing = columns(bytes_processor(), bytes_batch(kafka_partitions=[3, 3], timestamps=[5, 6]))
    assert outgoing.headers is RAW
    assert outgoing.sources is None
    assert outgoing.sizes(2) == [1 + len(b"trace\x00\xff") + len(b"none"), 0]


def whole() -> tuple[CopiedBatch, PolledBatches]:
    """Return a record batch, and what a mirror returns for it."""
    copy = CopiedBatch(encoded([DecodedRecord(4, 5, b"k", b"a"), DecodedRecord(6, 7, None, b"b")], 0, 0), [4, 6])
    fetched = WholeFetched(WholeBatches([(TopicPartition("s", 3), copy)]))
    batch = PolledBatches(
        Repeated("t", 2),
        fetched.values,
        Repeated({"p": 3}, 2),
        PositionColumn("offset", fetched.offsets),
        keys=fetched.keys,
        kafka_partitions=Repeated(3, 2),
        timestamps=fetched.timestamps,
        headers=HeaderColumn(fetched.headers or []),
        batches=fetched.batches,
    )
    return copy, batch


def test_record_batch_passes_undecoded_when_no_step_needs_its_records() -> None:
    copy, batch = whole()
    outgoing = bytes_processor().process(batch)
    assert isinstance(outgoing, OutgoingBatches)
    [placed] = outgoing.batches.placed(outgoing.topics, outgoing.partitions, outgoing.callbacks)
    assert (placed.batch, placed.place, len(outgoing)) == (copy, ("t", 3), 2)


def test_record_batch_is_decoded_when_a_converter_needs_its_records() -> None:
    own, (_, batch) = bytes_processor(), whole()
    own.header_converter = SimpleHeaderConverter({})
    outgoing = columns(own, batch)
    assert list(outgoing.values) == [b"a", b"b"]
    assert (list(outgoing.keys or ()), list(outgoing.timestamps or ())) == ([b"k", None], [5, 7])
    assert list(outgoing.partitions or ()) == [3, 3]


def test_byte_headers_are_visible_to_converters_and_records() -> None:
    own = processor()
    own.value_converter = ByteArrayConverter({"converter.type": "value"})
    assert columns(own, bytes_batch()).headers == [[("trace", b"AP8="), ("none", None)], []]  # a literal of theirs
    assert [[h.key for h in r.headers] for r in bytes_batch().slice(0, 1).records()] == [["trace", "none"]]


def test_ends_count_after_the_records_of_a_batch_and_stay_in_its_last_part() -> None:
    batch = bytes_batch(ends=[({"p": 0}, {"offset": 9})])
    assert batch.last_offsets()[-1] == ({"p": 0}, {"offset": 9})
    assert batch.slice(0, 1).last_offsets() == [({"p": 0}, {"offset": 4})]
    assert batch.slice(1, 2).last_offsets()[-1] == ({"p": 0}, {"offset": 9})
    assert Batch([], [], [], [], ends=[({"p": 1}, {"offset": 2})]).last_offsets() == [({"p": 1}, {"offset": 2})]


class OfSilentRegistry(StringConverter):
    """Needs something that answers nothing until a record was tried twice."""

    def __init__(self) -> None:
        super().__init__({"converter.type": "value"})
        self.tries: list[str] = []

    def _ask(self, way: str) -> None:
        self.tries.append(way)
        if self.tries.count("record") < 2:
            raise UnavailableError("no answer")

    def from_connect_data(self, topic: str, schema: Any, value: Any) -> bytes | None:
        self._ask("record")
        return super().from_connect_data(topic, schema, value)

    def from_column(self, schema: Any, values: Any) -> Any:
        self._ask("column")
        return super().from_column(schema, values)


@pytest.mark.parametrize("transforms", [{}, ROUTER], ids=["none", "chain"])
def test_silent_registry_is_awaited_with_one_record(transforms: dict[str, str]) -> None:
    converter, own = OfSilentRegistry(), processor(transforms)
    own.value_converter = converter
    (batch,) = Batch.of_records([record(str(number)) for number in range(2_000)])
    assert list(columns(own, batch).values) == [b"%d" % number for number in range(2_000)]
    assert converter.tries[:3] == ["column", "record", "record"]
    assert converter.tries.count("record") == 2
