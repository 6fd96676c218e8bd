"""Records in whole batches, which are decoded only when a caller reads one of their columns; and columns for
producers.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from fencepost.kafka.value.fetched import Fetched
from fencepost.record import Batch, Chained, HeaderBytes, Repeated, Runs, TopicPartition

DeliveryCallback = Callable[[Any, Any], None]
"""Called with (error, message) when a record is delivered or has failed."""
NO_PARTITION = -1
"""The client chooses the partition by the key."""
NOW = -(1 << 63)
"""The record's timestamp is the time at which the client receives it."""


class PlacedRecords(NamedTuple):
    """Columns of equal length. Timestamps are milliseconds since 1970; a record without headers has an empty sequence.

    `callbacks` are called with (error, message), by the index of their record, when it is delivered or has failed.
    Successes are reported only if `delivery.report.only.error` is off.
    """

    topics: Sequence[str]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    partitions: Sequence[int]
    timestamps: Sequence[int]
    headers: Sequence[Sequence[HeaderBytes]]
    callbacks: Mapping[int, DeliveryCallback] = MappingProxyType({})

    def ensure_even(self) -> None:
        """Raise ValueError if columns differ in length: the rest of the longer ones would be silently dropped."""
        counts = {name: len(column) for name, column in self._asdict().items() if name != "callbacks"}
        if len(set(counts.values())) > 1:
            raise ValueError(f"columns of records differ in length: {counts}")


FieldName = Literal["key", "value", "timestamp", "headers"]


class WholeBatch(Protocol):
    """A batch of one partition, ready to be written except for the producer's id, epoch and sequence."""

    @property
    def count(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def offsets(self) -> Sequence[int]:
        """Return the offsets of its records in the topic that they were read from."""

    @property
    def times_ms(self) -> tuple[int, int]:
        """Return the first and the latest timestamp."""

    def records(self) -> Sequence[Any]:
        """Return its records, which have key, value, timestamp and headers."""


class PlacedBatch(NamedTuple):
    """A batch to be written to a partition. `callbacks` are called with (error, message), by index of their record."""

    place: TopicPartition
    batch: WholeBatch
    callbacks: Mapping[int, DeliveryCallback]


def placed_records(placed: PlacedBatch) -> PlacedRecords:
    """Return the records of a batch as columns."""
    records = placed.batch.records()
    count = len(records)
    return PlacedRecords(
        Repeated(placed.place.topic, count),
        [record.value for record in records],
        [record.key for record in records],
        Repeated(placed.place.partition, count),
        [record.timestamp for record in records],
        [record.headers for record in records],
        placed.callbacks,
    )


class WholeBatches:
    """Batches in order, each with the partition that it was read from."""

    def __init__(self, entries: Sequence[tuple[TopicPartition, WholeBatch]]) -> None:
        self.entries = entries
        runs = [(place, sum(batch.count for _, batch in run)) for place, run in groupby(entries, lambda each: each[0])]
        self.places = Runs([place for place, _ in runs], [count for _, count in runs])
        self.offsets = Chained([batch.offsets for _, batch in entries])

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size_bytes(self) -> int:
        return sum(batch.size_bytes for _, batch in self.entries)

    def placed(
        self, topics: Sequence[str], partitions: Sequence[Any], callbacks: Mapping[int, DeliveryCallback]
    ) -> list[PlacedBatch]:
        """Return each batch with the partition it goes to. Topics, partitions and callbacks are given per record."""
        firsts = [end - batch.count for (_, batch), end in zip(self.entries, self.offsets.ends, strict=True)]
        of_batches: list[dict[int, DeliveryCallback]] = [{} for _ in firsts]
        for index, call in callbacks.items():
            at = bisect_right(firsts, index) - 1
            of_batches[at][index - firsts[at]] = call
        return [
            PlacedBatch(TopicPartition(topics[first], partitions[first]), batch, own)
            for (_, batch), first, own in zip(self.entries, firsts, of_batches, strict=True)
        ]

    def within(self, start: int, stop: int) -> list[WholeBatch]:
        """Return the batches of the records `start` up to before `stop`, which must be batch boundaries."""
        ends = self.offsets.ends
        return [batch for _, batch in self.entries[bisect_right(ends, start) : bisect_right(ends, stop)]]

    @cached_property
    def records(self) -> list[Any]:
        """Return all records."""
        return [record for _, batch in self.entries for record in batch.records()]


class _DecodedColumn(Sequence[Any]):
    """One field of all records of some batches, which are decoded when the first value is read."""

    def __init__(self, batches: WholeBatches, name: FieldName) -> None:
        self._batches = batches
        self._name = name

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [getattr(record, self._name) for record in self._batches.records[index]]
        return getattr(self._batches.records[index], self._name)


class WholeFetched(Fetched):
    """Fetched records that are still whole batches. Their columns are decoded when one is read."""

    def __init__(self, batches: WholeBatches) -> None:
        super().__init__(
            batches.places,
            batches.offsets,
            _DecodedColumn(batches, "timestamp"),
            _DecodedColumn(batches, "key"),
            _DecodedColumn(batches, "value"),
            _DecodedColumn(batches, "headers"),
        )
        self.batches = batches

    def without(self, places: Collection[TopicPartition]) -> Fetched:
        left = WholeFetched(WholeBatches([each for each in self.batches.entries if each[0] not in places]))
        left.ends = {place: end for place, end in self.ends.items() if place not in places}
        left.epochs = {place: epoch for place, epoch in self.epochs.items() if place not in places}
        return left

    def first_offsets(self) -> dict[TopicPartition, int]:
        return {place: batch.offsets[0] for place, batch in reversed(self.batches.entries)}

    def next_offsets(self) -> dict[TopicPartition, int]:
        return {place: batch.offsets[-1] + 1 for place, batch in self.batches.entries}

    def size_bytes(self, start: int, stop: int) -> int:
        """Return the size of the batches of these records, without decoding their values."""
        return sum(batch.size_bytes for batch in self.batches.within(start, stop))

    def times_ms(self, start: int, stop: int, most: int) -> list[int]:
        return [time for batch in self.batches.within(start, stop)[-most:] for time in batch.times_ms]


@dataclass(frozen=True, slots=True)
class PolledBatches(Batch):
    """Records that `poll` returns as whole batches. They can be written as they are if nothing has to look inside."""

    batches: WholeBatches = field(kw_only=True)
