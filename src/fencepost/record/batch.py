"""Records as columns, the fast form of what `poll()` returns; and as transforms and predicates see them, whether
they come from a source or go to a sink.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, TypedDict, Unpack

import orjson

from fencepost.record.column import Repeated, Runs, picked
from fencepost.record.java_value import milliseconds
from fencepost.record.record import Header, PartitionKey, SourceRecord, partition_key
from fencepost.record.schema import Schema
from fencepost.record.type_table import rows_of_arrow

SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]
OffsetOfRow = str | Callable[[Any], SourceOffset]


class _FormerName(TypedDict, total=False):
    """An argument of `Batch.of_rows` under the name it had before `offset`."""

    source_offset: Callable[[Any], SourceOffset]


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in order, with one column for each field. All columns have the length of `values`.

    A column with the same value for all records is a `Repeated`; one with runs of equal values may be `Runs`. `keys`,
    `kafka_partitions`, `timestamps` and `headers` are None if no record has one. Values are Python values that fit
    `value_schema` (None: schemaless). A `Utf8Column` or a list of bytes goes to Kafka unchanged unless a transform
    looks inside, and so do headers in a `HeaderColumn`.

    `ends` holds the offsets of source partitions after the batch, if they are beyond the partition's last record in it.
    They are committed with the batch, even if it has no records, and even if they are committed already: this renews
    offsets in a store that deletes them after some time. An end of None removes the committed offset.

    >>> from fencepost.api import FLOAT64, INT64, Batch, Schema
    >>> rows = [{"n": 1, "price": 9.5}, {"n": 2, "price": None}]
    >>> schema = Schema.struct({"n": INT64, "price": FLOAT64.optional()})
    >>> batch = Batch.of_rows(rows, topic="prices", source_partition={"feed": "a"}, offset="n", value_schema=schema)
    >>> batch.last_offsets()
    [({'feed': 'a'}, {'n': 2})]

    The same from an Arrow table, which has a schema of its own:

    >>> import pyarrow as pa
    >>> table = pa.Table.from_pylist(rows)
    >>> Batch.of_arrow(table, topic="prices", source_partition={"feed": "a"}, offset="n").record(0).value
    {'n': 1, 'price': 9.5}
    """

    topics: Sequence[str]
    values: Sequence[Any]
    source_partitions: Sequence[SourcePartition]
    source_offsets: Sequence[SourceOffset | None]
    value_schema: Schema | None = None
    keys: Sequence[Any] | None = None
    key_schema: Schema | None = None
    kafka_partitions: Sequence[int | None] | None = None
    timestamps: Sequence[int | None] | None = None
    headers: Sequence[tuple[Header, ...]] | None = None
    ends: Sequence[tuple[SourcePartition, SourceOffset | None]] = ()

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of_column(
        cls,
        values: Sequence[Any],
        *,
        topic: str,
        source_partition: SourcePartition,
        source_offsets: Sequence[SourceOffset | None],
        value_schema: Schema | None = None,
    ) -> "Batch":
        """Create a batch of values without keys, all for one topic and from one source partition."""
        count = len(values)
        return cls(Repeated(topic, count), values, Repeated(source_partition, count), source_offsets, value_schema)

    @classmethod
    def of_rows(
        cls,
        rows: Iterable[Any],
        *,
        topic: str,
        source_partition: SourcePartition,
        offset: OffsetOfRow | None = None,
        key: str | None = None,
        value_schema: Schema | None = None,
        timestamp: str | None = None,
        headers: Callable[[Any], Mapping[str, Any]] | None = None,
        **former: Unpack[_FormerName],
    ) -> "Batch":
        """Create a batch of rows for one topic, from one source partition.

        Args:
            rows: mappings of names to values, or instances of a dataclass.
            offset: the field that says where to continue after the row (`offset="n"`: the source offset is
                `{"n": row["n"]}`), or a function that returns the source offset of a row. It was `source_offset` once.
            key: the field that is also the record's key, with its schema in `value_schema`.
            value_schema: the schema of the rows, a struct. None: schemaless.
            timestamp: the field with the record's time: a datetime, or milliseconds since 1970.
            headers: returns the headers of a row, by name.
        """
        listed, count_from = _checked_rows(rows), former.get("source_offset", offset)
        count = len(listed)
        return cls(
            Repeated(topic, count),
            listed,
            Repeated(_checked_partition(source_partition), count),
            _offsets_of(listed, count_from),
            value_schema,
            None if key is None else _column_of(listed, "key", key),
            _key_schema(value_schema, key),
            timestamps=None if timestamp is None else _timestamps_of(listed, timestamp),
            headers=None if headers is None else _headers_of(listed, headers),
        )

    @classmethod
    def of_arrow(
        cls,
        table: Any,
        *,
        topic: str,
        source_partition: SourcePartition,
        offset: OffsetOfRow,
        key: str | None = None,
        timestamp: str | None = None,
        headers: Callable[[Any], Mapping[str, Any]] | None = None,
        name: str | None = None,
    ) -> "Batch":
        """Create a batch of the rows of a `pyarrow.Table` or record batch, with the schema of its columns.

        The arguments are those of `of_rows`; `name` is the name of the schema (`Schema.of_arrow`). Connect's times have
        milliseconds: finer digits are cut off.
        """
        return cls.of_rows(
            rows_of_arrow(table),
            topic=topic,
            source_partition=source_partition,
            offset=offset,
            key=key,
            value_schema=Schema.of_arrow(table.schema, name=name),
            timestamp=timestamp,
            headers=headers,
        )

    @classmethod
    def of_records(cls, records: Sequence[SourceRecord]) -> list["Batch"]:
        """Pack records into batches, in order. A new batch begins where the schemas change."""
        batches: list[Batch] = []
        start = 0
        schemas = [(each.value_schema, each.key_schema) for each in records]
        for i in range(1, len(records) + 1):
            if i == len(records) or schemas[i] != schemas[start]:
                batches.append(cls._packed(records[start:i]))
                start = i
        return batches

    @classmethod
    def _packed(cls, records: Sequence[SourceRecord]) -> "Batch":
        first = records[0]
        return cls(
            [r.topic for r in records],
            [r.value for r in records],
            [r.source_partition for r in records],
            [r.source_offset for r in records],
            value_schema=first.value_schema,
            keys=_column_or_none([r.key for r in records]),
            key_schema=first.key_schema,
            kafka_partitions=_column_or_none([r.kafka_partition for r in records]),
            timestamps=_column_or_none([r.timestamp for r in records]),
            headers=[r.headers for r in records] if any(r.headers for r in records) else None,
        )

    def record(self, index: int) -> SourceRecord:
        """Return one record of the batch."""
        return SourceRecord(
            self.source_partitions[index],
            self.source_offsets[index],
            self.topics[index],
            self.values[index],
            self.value_schema,
            None if self.keys is None else self.keys[index],
            self.key_schema,
            None if self.kafka_partitions is None else self.kafka_partitions[index],
            None if self.timestamps is None else self.timestamps[index],
            () if self.headers is None else self.headers[index],
        )

    def records(self) -> Iterator[SourceRecord]:
        return (self.record(i) for i in range(len(self)))

    def slice(self, start: int, stop: int) -> "Batch":
        """Return records `start` up to before `stop`."""
        part = slice(start, stop)
        columns: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        schemas = {"value_schema": columns.pop("value_schema"), "key_schema": columns.pop("key_schema")}
        ends = columns.pop("ends")
        parts: dict[str, Any] = {name: None if each is None else each[part] for name, each in columns.items()}
        return Batch(**parts, **schemas, ends=ends if stop >= len(self) else ())

    def last_offsets(self) -> list[tuple[SourcePartition, SourceOffset | None]]:
        """Return the offset of each source partition after the batch, in order; None if no record has one."""
        return [*self._offsets_of_records(), *self.ends]

    def _offsets_of_records(self) -> list[tuple[SourcePartition, SourceOffset | None]]:
        if isinstance(self.source_partitions, Repeated):
            return [(self.source_partitions.value, _last(self.source_offsets))] if len(self) else []
        if isinstance(self.source_partitions, Runs):
            runs = self.source_partitions
            pieces = zip(runs.values, runs.counts, runs.ends, strict=True)
            return [(value, _last(self.source_offsets[end - count : end])) for value, count, end in pieces]
        last: dict[bytes | PartitionKey, tuple[SourcePartition, SourceOffset | None]] = {}
        for partition, offset in zip(self.source_partitions, self.source_offsets, strict=True):
            key = _hashable(partition)
            _, before = last.pop(key, (None, None))
            last[key] = (partition, before if offset is None else offset)
        return list(last.values())


def _last(offsets: Sequence[SourceOffset | None]) -> SourceOffset | None:
    return next((offset for offset in reversed(offsets) if offset is not None), None)


def _hashable(partition: SourcePartition) -> bytes | PartitionKey:
    """Return a key for comparing the source partitions of many records. Its JSON text is the fastest to compare."""
    try:
        return orjson.dumps(partition, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # writing it to the topic will report what is wrong with it
        return partition_key(partition)


def _column_or_none(column: list[Any]) -> list[Any] | None:
    return None if all(v is None for v in column) else column


def _checked_rows(rows: Iterable[Any]) -> Sequence[Any]:
    """Return rows as mappings; dataclass instances become dicts."""
    if isinstance(rows, Mapping | str | bytes):
        raise TypeError(f"Batch.of_rows takes a list of rows, not a single {type(rows).__name__}: write [row]")
    listed = rows if isinstance(rows, Sequence) else list(rows)
    if len(listed) and is_dataclass(listed[0]):
        return [asdict(row) for row in listed]
    return listed


def _checked_partition(partition: Any) -> Mapping[str, Any]:
    if not isinstance(partition, Mapping):
        raise TypeError(f"source_partition={partition!r} is not a mapping; write {{'name': {partition!r}}}")
    return partition


def _offsets_of(rows: Sequence[Any], offset: OffsetOfRow | None) -> list[SourceOffset]:
    """Return the source offset of each row: the value of a field, by the field's name, or what a function returns."""
    if offset is None:
        raise TypeError(
            "Batch.of_rows needs offset=: the field of a row from which `start` can continue after the row, or a "
            "function of the row that returns the offset"
        )
    if isinstance(offset, str):
        return [{offset: value} for value in _column_of(rows, "offset", offset)]
    found = [offset(row) for row in rows]
    for number, one in enumerate(found):
        if not isinstance(one, Mapping):
            raise TypeError(
                f"the function offset= returned {one!r} for row {number}: return a mapping, such as {{'at': {one!r}}}, "
                "or name the field: offset='at'"
            )
    return found


def _column_of(rows: Sequence[Any], argument: str, field: str) -> list[Any]:
    try:
        return [row[field] for row in rows]
    except (KeyError, TypeError, IndexError):
        raise _missing(rows, argument, field) from None


def _key_schema(value_schema: Schema | None, field: str | None) -> Schema | None:
    found = None if value_schema is None or field is None else value_schema.field(field)
    return None if found is None else found.schema


def _timestamps_of(rows: Sequence[Any], field: str) -> list[int | None]:
    """Return a field of all rows as milliseconds since 1970; it may hold those, or a datetime (UTC if it is naive)."""
    return [_milliseconds(value, number, field) for number, value in enumerate(_column_of(rows, "timestamp", field))]


def _headers_of(rows: Sequence[Any], of_row: Callable[[Any], Mapping[str, Any]]) -> list[tuple[Header, ...]]:
    """Return the headers of each row from a function that returns them by name."""
    found = [of_row(row) for row in rows]
    for number, one in enumerate(found):
        if not isinstance(one, Mapping):
            raise TypeError(f"the function headers= returned {one!r} for row {number}: return a mapping of names")
    return [tuple(Header(name, value) for name, value in one.items()) for one in found]


def _milliseconds(value: Any, number: int, field: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, dt.datetime):
        return milliseconds(value)
    raise TypeError(
        f"row {number}: timestamp={field!r} names {value!r}, which is neither a datetime nor a whole number of "
        "milliseconds since 1970"
    )


def _missing(rows: Sequence[Any], argument: str, field: str) -> Exception:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            return TypeError(f"row {number} is {row!r}: a row is a mapping of names to values, or a dataclass instance")
        if field not in row:
            known = ", ".join(map(str, row))
            return ValueError(f"row {number} has no field {field!r}, which {argument}= names; it has: {known}")
    return ValueError(f"rows have no field {field!r}, which {argument}= names")


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
