"""Records as columns, as transforms and predicates see them, whether they come from a source or go to a sink."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fencepost.record.batch import Batch
from fencepost.record.column import Repeated, picked
from fencepost.record.record import Header
from fencepost.record.schema import Schema


class TypedColumn(NamedTuple):
    """The keys or the values of records, and the schema that all of them have (None: schemaless).

    >>> from fencepost.api import TypedColumn
    >>> TypedColumn(None, [{"n": 1}, {"n": 2}]).values[0]
    {'n': 1}
    """

    schema: Schema | None
    values: Sequence[Any]


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records in order, with one column for each part of a record. All columns have the same length.

    A column with the same value for all records is a `Repeated`; text may be a `Utf8Column`; structs, and maps without
    a schema, may be a `StructColumn`. A part that no record has is a `Repeated` of None, or of `()` for headers.
    `kafka_offsets` is None if the records come from a source.

    `rows` says which records of the polled or fetched batch these are. It may be shortened only with `select`.

    >>> from fencepost.api import Batch, RecordColumns
    >>> rows = [{"n": 1}, {"n": 2}, {"n": 3}]
    >>> batch = Batch(["a", "b", "a"], rows, [{}] * 3, [{"n": 1}, {"n": 2}, {"n": 3}])
    >>> left = RecordColumns.of_batch(batch).select([0, 2])
    >>> left.topics, left.value.values, left.rows
    (['a', 'a'], [{'n': 1}, {'n': 3}], [0, 2])
    """

    topics: Sequence[str]
    value: TypedColumn
    key: TypedColumn
    kafka_partitions: Sequence[int | None]
    timestamps: Sequence[int | None]
    headers: Sequence[tuple[Header, ...]]
    rows: Sequence[int]
    kafka_offsets: Sequence[int] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if a column has another length."""
        counts = set(map(len, (self.topics, self.value.values, self.key.values, self.headers, self.rows)))
        if len(counts | {len(self.kafka_partitions), len(self.timestamps)}) > 1:
            raise ValueError("a column of the batch is longer or shorter than the others")

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of_batch(cls, batch: Batch) -> "RecordColumns":
        """Return the records of a source's batch."""
        count = len(batch)
        nothing = Repeated(None, count)
        return cls(
            batch.topics,
            TypedColumn(batch.value_schema, batch.values),
            TypedColumn(batch.key_schema, nothing if batch.keys is None else batch.keys),
            nothing if batch.kafka_partitions is None else batch.kafka_partitions,
            nothing if batch.timestamps is None else batch.timestamps,
            Repeated((), count) if batch.headers is None else batch.headers,
            range(count),
        )

    def replace(self, **columns: Any) -> "RecordColumns":
        """Return the same records with some columns replaced."""
        return replace(self, **columns)

    def select(self, indexes: Sequence[int]) -> "RecordColumns":
        """Return the records at `indexes`, counted from 0 within this batch, which must be in ascending order."""
        return RecordColumns(
            picked(self.topics, indexes),
            TypedColumn(self.value.schema, picked(self.value.values, indexes)),
            TypedColumn(self.key.schema, picked(self.key.values, indexes)),
            picked(self.kafka_partitions, indexes),
            picked(self.timestamps, indexes),
            picked(self.headers, indexes),
            picked(self.rows, indexes),
            None if self.kafka_offsets is None else picked(self.kafka_offsets, indexes),
        )
