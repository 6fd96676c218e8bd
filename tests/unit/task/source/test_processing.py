"""From a polled batch to what the producer takes."""

from typing import Any

import pytest

from fencepost.api import FatalError, Header, RecordError, SourceRecord
from fencepost.converter.byte_array import ByteArrayConverter
from fencepost.converter.simple_header import SimpleHeaderConverter
from fencepost.converter.string import StringConverter
from fencepost.plugin import find
from fencepost.record import Batch, HeaderColumn
from fencepost.record.schema import STRING
from fencepost.task.control import Control
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.source.processing import Processor
from fencepost.transform.chain import Chain
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


def processor(transforms: dict[str, str] | None = None, *, tolerates_all: bool = False) -> Processor:
    tolerance = Tolerance(tolerates_all, 0, 1, False, False, Control(is_paused=False), "c-0")
    key = StringConverter({"converter.type": "key"})
    chain = Chain.from_config(transforms or {}, find)
    return Processor(chain, key, Picky({"converter.type": "value"}), SimpleHeaderConverter({}), tolerance)


def record(value: Any, topic: str = "t", **more: Any) -> SourceRecord:
    return SourceRecord({"f": 1}, {"n": 1}, topic, value, STRING, **more)


def processed(own: Processor, *records: SourceRecord) -> list[Outgoing]:
    return [own.process(batch) for batch in Batch.of_records(list(records))]


def rows(outgoings: list[Outgoing]) -> list[tuple[str, bytes | None, bytes | None]]:
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
    one_by_one = [processor(transforms)._one_by_one(batch) for batch in Batch.of_records(plain)]
    assert rows(by_columns) == rows(one_by_one)
    assert [list(o.timestamps or [None] * len(o)) for o in by_columns] == [list(o.timestamps or []) for o in one_by_one]


def test_headers_are_converted() -> None:
    [outgoing] = processed(processor(), record("a", headers=(Header("h", "x", STRING),)))
    assert outgoing.headers is not None
    assert list(outgoing.headers[0]) == [("h", b"x")]


def test_filtered_records_are_left_out_and_sources_say_which_went() -> None:
    own = processor(DROP)
    outgoings = processed(own, record("a"), record("b", "drop-1"), record("c"))
    assert [value for _, _, value in rows(outgoings)] == [b"a", b"c"]
    assert own.tolerance.counters.skipped == 0


def test_a_record_that_no_converter_takes_fails_the_task() -> None:
    with pytest.raises(FatalError):
        processed(processor(), record("a"), record("bad"))


def test_a_tolerated_record_is_dropped_alone() -> None:
    own = processor(tolerates_all=True)
    [outgoing] = processed(own, record("a"), record("bad"), record("c"))
    assert list(outgoing.values) == [b"a", b"c"]
    assert outgoing.sources == [0, 2]
    assert own.tolerance.counters.skipped == 1


def test_a_tombstone_stays_one() -> None:
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


def test_headers_that_are_bytes_pass_as_they_are_when_the_converter_leaves_bytes_alone() -> None:
    outgoing = bytes_processor().process(bytes_batch(kafka_partitions=[3, 3], timestamps=[5, 6]))
    assert outgoing.headers is RAW
    assert outgoing.sources is None
    assert outgoing.sizes(2) == [1 + len(b"trace\x00\xff") + len(b"none"), 0]


def test_headers_that_are_bytes_are_headers_to_whoever_looks() -> None:
    own = processor()
    own.value_converter = ByteArrayConverter({"converter.type": "value"})
    assert own.process(bytes_batch()).headers == [[("trace", b"AP8="), ("none", None)], []]  # a literal of theirs
    assert [[h.key for h in r.headers] for r in bytes_batch().slice(0, 1).records()] == [["trace", "none"]]


def test_ends_count_behind_the_records_of_a_batch_and_stay_with_its_last_part() -> None:
    batch = bytes_batch(ends=[({"p": 0}, {"offset": 9})])
    assert batch.last_offsets()[-1] == ({"p": 0}, {"offset": 9})
    assert batch.slice(0, 1).last_offsets() == [({"p": 0}, {"offset": 4})]
    assert batch.slice(1, 2).last_offsets()[-1] == ({"p": 0}, {"offset": 9})
    assert Batch([], [], [], [], ends=[({"p": 1}, {"offset": 2})]).last_offsets() == [({"p": 1}, {"offset": 2})]
