"""Batches of a sink that pass transforms as columns: `put` receives what it receives record by record."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import RecordError, SinkBatch
from fencepost.builtin.converter.plain import SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain, Link
from fencepost.kafka.value.fetched import Fetched
from fencepost.plugin import find
from fencepost.record import BinaryColumn, Repeated, Runs, TopicPartition
from fencepost.task.control import Control
from fencepost.task.conversion import columns as conversion
from fencepost.task.conversion.columns import PART
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.processing import SinkProcessor
from support.column_records import OneByOne, Watched

ONE, OTHER = TopicPartition("t", 0), TopicPartition("u", 3)
HOIST = ("HoistField$Value", {"field": "line"})
MARK = ("InsertField$Value", {"topic.field": "topic", "offset.field": "at", "static.field": "s", "static.value": "v"})


class Picky(StringConverter):
    """Refuses a text."""

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        if data == b"bad":
            raise RecordError("bad")
        return super().to_connect_data(topic, data)

    def to_column(self, column: Sequence[bytes | None]) -> tuple[Any, Sequence[Any]] | None:
        if b"bad" in list(column):
            raise RecordError("bad")
        return super().to_column(column)


def link(name: str, settings: Mapping[str, str], topic: str = "") -> Link:
    predicate = find("predicate", "TopicNameMatches")({"pattern": topic}) if topic else None
    return Link(name, find("transform", name)(settings), predicate)


def processor(chain: Chain) -> SinkProcessor:
    tolerance = Tolerance(True, 0, 1, False, False, Control(is_paused=False), "c-0")
    key, value = (kind({"converter.type": "value"}) for kind in (StringConverter, Picky))
    return SinkProcessor(chain, key, value, SimpleHeaderConverter({}), tolerance)


def fetched(*values: bytes | None, others: int = 1) -> Fetched:
    """Return records of a partition, and `others` of another one."""
    count = len(values)
    places = Runs([ONE, OTHER], [count - others, others])
    times = [10 * n for n in range(count)]
    return Fetched(places, list(range(5, 5 + count)), times, Repeated(None, count), BinaryColumn(pa.array(values)))


def seen(batch: SinkBatch) -> list[Any]:
    return [(r, type(r.value), list(r.value.items()) if isinstance(r.value, dict) else r.value) for r in batch]


def test_records_reach_put_as_rows_that_may_be_changed() -> None:
    chain = Watched([link(*HOIST), link(*MARK)])
    batch = processor(chain).process(fetched(b"a", b"b", b"c"))
    assert chain.records == 0
    assert batch.values[0] == {"line": "a", "topic": "t", "at": 5, "s": "v"}
    batch.values[0]["line"] = "mine"
    assert batch.record(0).value["line"] == "mine"
    assert list(batch.places) == [ONE, ONE, OTHER]
    assert isinstance(batch.value_schemas, Repeated)


def test_filtered_records_are_not_put_and_later_offsets_do_not_shift() -> None:
    chain = Watched([link("Filter", {}, "u")])
    batch = processor(chain).process(fetched(b"a", b"b", b"c", b"d", others=2))
    assert [(r.value, r.at, r.kafka_offset) for r in batch] == [("a", ONE, 5), ("b", ONE, 6)]
    nothing = processor(Watched([link("Filter", {})])).process(fetched(b"a", b"b"))
    assert len(nothing) == 0


def test_bad_record_drops_only_itself() -> None:
    count, bad = 8 * PART, 3 * PART + 1
    values = [b"%d" % n for n in range(count)]
    chain = Watched([link(*HOIST), link(*MARK)])
    own = processor(chain)
    whole = seen(own.process(fetched(*values)))
    found = seen(own.process(fetched(*values[:bad], b"bad", *values[bad + 1 :])))
    assert found == [row for row in whole if row[0].kafka_offset != 5 + bad]
    assert (own.tolerance.counters.skipped, chain.records) == (1, 0)  # it failed in the converter


_values = st.lists(
    st.none() | st.sampled_from([b"a", b"\xff", b"bad", b"7"]) | st.binary(max_size=2), min_size=1, max_size=5
)


@given(_values, st.integers(0, 5), st.booleans(), st.sampled_from((2, PART)))
def test_columns_and_single_records_put_the_same(
    values: list[bytes | None], others: int, drops: bool, part: int
) -> None:
    links = [link(*HOIST, topic="u"), link("RegexRouter", {"regex": "t", "replacement": "v"})]
    links += [link("Filter", {}, "u")] if drops else [link("InsertHeader", {"header": "h", "value.literal": "1"})]
    batch = fetched(*values, others=min(others, len(values)))
    fast, slow = processor(Chain(links)), processor(OneByOne(links))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversion, "PART", part)
        assert seen(fast.process(batch)) == seen(slow.process(batch))
    assert fast.tolerance.counters.skipped == slow.tolerance.counters.skipped
