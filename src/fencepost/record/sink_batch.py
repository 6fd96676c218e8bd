"""Records of topics as columns, which `put()` and `process()` receive and `process()` returns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import compress
from types import EllipsisType
from typing import Any

from fencepost.record.column import Repeated, joined_member, picked
from fencepost.record.record import Header, SinkRecord, TopicPartition
from fencepost.record.schema import Schema


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """Records in the order of their offsets within each partition, with one column for each field, all of one length.

    `topics` and `partitions` are those after transforms. `places` holds the partition from which each record was read,
    and `offsets` its offset there. A column with the same value for all records is a `Repeated`. `values` and `keys`
    are Python values that fit their schemas (None: schemaless). Text may be a `Utf8Column`, whose `raw` holds its
    bytes. `timestamps` are milliseconds since 1970. `headers` is None if no record has one. `as_read` has the records
    before converters and transforms, if they may become dead letters. Iteration yields `SinkRecord`s.

    >>> from fencepost.api import SinkBatch, SinkRecord
    >>> batch = SinkBatch.of_records([SinkRecord("words", 0, 0, "one"), SinkRecord("words", 0, 1, "three")])
    >>> long = batch.where([len(word) > 3 for word in batch.values])
    >>> [(record.topic, record.value) for record in long.to("long", values=[w.upper() for w in long.values])]
    [('long', 'THREE')]
    """

    topics: Sequence[str]
    partitions: Sequence[int | None]
    offsets: Sequence[int]
    values: Sequence[Any]
    value_schemas: Sequence[Schema | None]
    keys: Sequence[Any]
    key_schemas: Sequence[Schema | None]
    timestamps: Sequence[int | None]
    places: Sequence[TopicPartition]
    headers: Sequence[tuple[Header, ...]] | None = None
    as_read: Sequence[SinkRecord | None] | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[SinkRecord]:
        return (self.record(i) for i in range(len(self)))

    def record(self, index: int) -> SinkRecord:
        """Return one record of the batch."""
        return SinkRecord(
            self.topics[index],
            self.partitions[index],
            self.offsets[index],
            self.values[index],
            self.value_schemas[index],
            self.keys[index],
            self.key_schemas[index],
            self.timestamps[index],
            () if self.headers is None else self.headers[index],
            self.places[index],
            None if self.as_read is None else self.as_read[index],
        )

    @classmethod
    def of_records(cls, records: Sequence[SinkRecord]) -> "SinkBatch":
        """Pack records into one batch, in order."""
        return cls(
            [r.topic for r in records],
            [r.kafka_partition for r in records],
            [r.kafka_offset for r in records],
            [r.value for r in records],
            _schemas([r.value_schema for r in records]),
            [r.key for r in records],
            _schemas([r.key_schema for r in records]),
            [r.timestamp for r in records],
            [_place(r) for r in records],
            [r.headers for r in records] if any(r.headers for r in records) else None,
            [r.as_read for r in records] if any(r.as_read for r in records) else None,
        )

    @classmethod
    def joined(cls, batches: "Sequence[SinkBatch]") -> "SinkBatch":
        """Concatenate several batches."""
        if len(batches) <= 1:
            return batches[0] if batches else cls.of_records([])
        names = [each.name for each in fields(cls)]
        return cls(**{name: joined_member(batches, name, () if name == "headers" else None) for name in names})

    def to(
        self,
        topic: str | Sequence[str],
        *,
        values: Sequence[Any] | EllipsisType = ...,
        value_schemas: Sequence[Schema | None] | EllipsisType = ...,
        keys: Sequence[Any] | EllipsisType = ...,
        key_schemas: Sequence[Schema | None] | EllipsisType = ...,
        partitions: Sequence[int | None] | EllipsisType = ...,
        timestamps: Sequence[int | None] | EllipsisType = ...,
        headers: Sequence[tuple[Header, ...]] | EllipsisType | None = ...,
    ) -> "SinkBatch":
        """Return the records with the destination `topic` (one name, or one for each), partitioned by their keys.

        Each of the other arguments replaces a column of the same length; what is left out stays as it is. New `values`
        and `keys` are schemaless unless their schemas are given, too.
        """
        none = Repeated(None, len(self))
        columns: dict[str, Any] = {
            "topics": Repeated(topic, len(self)) if isinstance(topic, str) else topic,
            "values": values,
            "value_schemas": none if value_schemas is ... and values is not ... else value_schemas,
            "keys": keys,
            "key_schemas": none if key_schemas is ... and keys is not ... else key_schemas,
            "partitions": none if partitions is ... else partitions,
            "timestamps": timestamps,
            "headers": headers,
        }
        return replace(self, **{name: column for name, column in columns.items() if column is not ...})

    def where(self, is_kept: Sequence[object]) -> "SinkBatch":
        """Return the records whose entry in `is_kept` is true."""
        return self.select(list(compress(range(len(self)), is_kept)))

    def select(self, indexes: Sequence[int]) -> "SinkBatch":
        """Return the records at `indexes`, in that order. An index may occur more than once."""
        return self._each(lambda column: picked(column, indexes))

    def part(self, start: int, stop: int) -> "SinkBatch":
        """Return records `start` up to before `stop`."""
        return self._each(lambda column: column[start:stop])

    def without(self, lost: frozenset[TopicPartition]) -> "SinkBatch":
        """Return the records that were not read from any of these partitions."""
        if lost.isdisjoint(self.places):
            return self
        return SinkBatch.of_records([record for record in self if _place(record) not in lost])

    def _each(self, change: Callable[[Any], Any]) -> "SinkBatch":
        columns: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        changed: dict[str, Any] = {n: None if column is None else change(column) for n, column in columns.items()}
        return SinkBatch(**changed)


def _place(record: SinkRecord) -> TopicPartition:
    return record.at or TopicPartition(record.topic, record.kafka_partition or 0)


def _schemas(column: list[Schema | None]) -> Sequence[Schema | None]:
    first = column[0] if column else None
    return Repeated(first, len(column)) if all(each is first for each in column) else column
