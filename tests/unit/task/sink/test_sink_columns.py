"""What came as columns of Arrow's reaches `put` as such, and whoever looks sees what was always there."""

from array import array
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from fencepost.api import Converter, SinkBatch, UnavailableError
from fencepost.builtin.converter.plain import ByteArrayConverter, SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import BinaryColumn, Repeated, Runs, TopicPartition, Utf8Column
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.processing import SinkProcessor

ONE, OTHER = TopicPartition("t", 0), TopicPartition("u", 3)
TEXTS = ["a", "ä", "", "d"]


class Untouched(BinaryColumn):
    """A column at whose values nobody may look."""

    def _looked_at(self) -> list[bytes | None]:
        raise AssertionError("made objects of all values")


def column(*values: bytes | None) -> BinaryColumn:
    return BinaryColumn(pa.array(values, pa.binary()))


def fetched(keys: Any, values: Any) -> Fetched:
    return Fetched(Runs([ONE, OTHER], [3, 1]), [5, 6, 8, 0], [1, 2, None, 4], keys, values)


def processed(found: Fetched, converter: type[Converter] = StringConverter) -> SinkBatch:
    tolerance = Tolerance(False, 0, 1, False, False, Control(is_paused=False), "c-0")
    key, value = (converter({"converter.type": kind}) for kind in ("key", "value"))
    return SinkProcessor(Chain(), key, value, SimpleHeaderConverter({}), tolerance).process(found)


def test_text_of_several_partitions_stays_columns_without_making_records() -> None:
    values = Untouched(column(*(text.encode() for text in TEXTS)).array)
    batch = processed(fetched(Untouched(pa.nulls(4, pa.binary())), values))
    assert isinstance(batch.values, Utf8Column)
    assert batch.values.raw is values
    assert isinstance(batch.topics, Runs)
    assert isinstance(batch.partitions, Runs)
    assert isinstance(batch.offsets, list)


def test_offsets_and_timestamps_of_a_batch_are_lists() -> None:
    """An array is no JSON, equals no list, and cannot be joined with one."""
    found = fetched(column(*[None] * 4), column(*[b"a"] * 4))
    found.offsets, found.timestamps = array("q", [5, 6, 8, 0]), array("q", [1, 2, 3, 4])
    batch = processed(found)
    assert (batch.offsets, batch.timestamps) == ([5, 6, 8, 0], [1, 2, 3, 4])


@pytest.mark.parametrize("is_listed", [False, True])
def test_records_of_columns_equal_records_of_lists(is_listed: bool) -> None:
    raw: list[bytes | None] = [text.encode() for text in TEXTS]
    keys: list[bytes | None] = [b"k", None, b"l", None]
    found = fetched(keys, raw) if is_listed else fetched(column(*keys), column(*raw))
    batch = processed(found)
    assert [record.value for record in batch] == TEXTS
    assert [record.key for record in batch] == ["k", None, "l", None]
    assert [(r.topic, r.kafka_partition, r.kafka_offset, r.timestamp, r.at) for r in batch] == [
        ("t", 0, 5, 1, ONE),
        ("t", 0, 6, 2, ONE),
        ("t", 0, 8, None, ONE),
        ("u", 3, 0, 4, OTHER),
    ]
    picked = batch.select([3, 1])
    assert ([r.value for r in picked], [r.topic for r in picked]) == (["d", "ä"], ["u", "t"])
    assert [record.value for record in batch.without(frozenset([ONE]))] == ["d"]
    assert list(batch.values[1:3]) == ["ä", ""]


def test_tombstone_in_a_text_column_is_none() -> None:
    batch = processed(fetched(Repeated(None, 4), column(b"a", None, b"c", b"d")))
    assert list(batch.values) == ["a", None, "c", "d"]


def test_bytes_pass_unchanged() -> None:
    batch = processed(fetched(Repeated(None, 4), column(b"a", None, b"\xff", b"d")), ByteArrayConverter)
    assert isinstance(batch.values, BinaryColumn)
    assert [record.value for record in batch] == [b"a", None, b"\xff", b"d"]
    assert [record.value for record in batch.select([2, 1])] == [b"\xff", None]


class OfSilentRegistry(StringConverter):
    """Needs something that answers nothing until a record was tried twice."""

    tries: ClassVar[list[str]] = []

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        self._ask("record")
        return super().to_connect_data(topic, data)

    def to_column(self, column: Any) -> Any:
        self._ask("column")
        return super().to_column(column)

    def _ask(self, way: str) -> None:
        self.tries.append(way)
        if self.tries.count("record") < 2:
            raise UnavailableError("no answer")


def test_silent_registry_is_awaited_with_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OfSilentRegistry, "tries", [])
    batch = processed(fetched(column(*[b"k"] * 4), column(*(text.encode() for text in TEXTS))), OfSilentRegistry)
    assert [record.value for record in batch] == TEXTS
    assert OfSilentRegistry.tries[:3] == ["column", "record", "record"]
