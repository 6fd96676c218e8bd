"""Values with schemas in a registry as columns, and rows as such values, on executors: many values of a schema at once.

A value begins with the id of its schema, or a header names the schema; the value is its payload then. Its first bytes
may look like an id by chance, so headers are looked at. Values of JSON Schema and Protobuf become columns by way of
Connect's schemas, value by value.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api import Converter, RecordError, Schema, SchemaType
from fencepost.builtin.converter.registry.wire import VALUE_HEADER, SchemaKey, framed
from fencepost.config import ConfigError
from fencepost.record import Repeated, SchemaError
from fencepost.record.schema import schema_of_column
from fencepost.spark.row.columns import topic_names
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED, READ
from fencepost.spark.row.registry import ReaderSchema, ValueColumn, settled
from fencepost.task.conversion.columns import column_to_bytes

PREFIX = 5
"""The bytes before a value: 0, and the id of its schema, the highest byte first."""

_LONG, _TEXT = pa.int64(), pa.string()
_ONE, _NULL = pa.scalar(1, _LONG), pa.scalar(None, _LONG)
_MAGIC = b"\0"
_Made = Callable[[pa.Array], tuple[pa.Array, pa.Array]]


class RegistryColumns:
    """Converts many batches of one topic."""

    def __init__(
        self,
        reader: ReaderSchema,
        schema_of: Callable[[SchemaKey], ReaderSchema],
        type_: pa.StructType,
        *,
        keeps_read: bool = False,
    ) -> None:
        """`type_` is that of the made structs: the reader's fields, and any that are null."""
        self._reader = reader
        self._schema_of = schema_of
        self._type = type_
        self._keeps_read = keeps_read
        self._columns: dict[SchemaKey, ValueColumn | str] = {}

    def made(self, batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
        """Return a batch with these columns, MISFIT_REASON, READ if it is kept, and PARSED.

        Its `value` is null, being made use of. `batch` has `value` and `headers`.
        """
        values = batch["value"]
        structs, reasons = self.structs(values, batch["headers"])
        arrays = {name: batch[name] for name in names}
        if "value" in arrays:
            arrays["value"] = pa.nulls(len(values), values.type)
        arrays[MISFIT_REASON] = reasons
        if self._keeps_read:
            arrays[READ] = values
        arrays[PARSED] = structs
        return pa.RecordBatch.from_pydict(arrays)

    def structs(self, values: pa.Array, headers: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the columns of values, bytes or null, and why some cannot be read; each is in its place, or null.

        Raises what the registry raises, other than RecordError.
        """
        marks = _marks(headers)
        if not marks:
            return self._where_there(values, self._of_all)
        rows: dict[bytes, list[int]] = {}
        for row, mark in marks.items():
            rows.setdefault(mark, []).append(row)
        is_marked = [row in marks for row in range(len(values))]
        unmarked = pc.if_else(pa.array(is_marked), pa.scalar(None, values.type), values)
        parts = [self._where_there(unmarked, self._of_all)]
        places, count = list(range(len(values))), len(values)
        for mark, own in rows.items():
            payloads = values.take(pa.array(own, _LONG))
            parts.append(self._where_there(payloads, partial(self._of_header, mark)))
            for row in own:
                places[row], count = count, count + 1
        made, reasons = (pa.concat_arrays(each).take(pa.array(places, _LONG)) for each in zip(*parts, strict=True))
        return made, reasons

    def _where_there(self, values: pa.Array, made_of: _Made) -> tuple[pa.Array, pa.Array]:
        count = len(values)
        there = values.drop_null() if values.null_count else values
        if not len(there):
            return pa.nulls(count, self._type), pa.nulls(count, _TEXT)
        made, reasons = made_of(there)
        if len(there) < count:
            places = pc.if_else(values.is_valid(), _numbers(values.is_valid()), _NULL)
            made, reasons = made.take(places), reasons.take(places)
        return made, reasons

    def _of_all(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        first = values[0].as_py()[:PREFIX]
        if _is_prefix(first) and pc.all(pc.starts_with(values, first)).as_py():
            return self._of_one(first, values)
        prefixes = pc.binary_slice(values, 0, PREFIX)
        parts: list[tuple[pa.Array, pa.Array]] = []
        place, count = pa.nulls(len(values), _LONG), 0
        for prefix in pc.unique(prefixes).to_pylist():
            where = pc.equal(prefixes, pa.scalar(prefix, pa.binary()))
            part = values.filter(where)
            parts.append(self._of_one(prefix, part))
            place = pc.if_else(where, pc.add(_numbers(where), pa.scalar(count, _LONG)), place)
            count += len(part)
        made, reasons = (pa.concat_arrays(each).take(place) for each in zip(*parts, strict=True))
        return made, reasons

    def _of_one(self, prefix: bytes, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        if not _is_prefix(prefix):
            reason = f"it begins with 0x{prefix.hex()}, not with 0 and the id of a schema in the registry"
            return self._refused(len(values), reason)
        return self._of_schema(SchemaKey(int.from_bytes(prefix[1:], "big")), values, PREFIX)

    def _of_header(self, header: bytes, payloads: pa.Array) -> tuple[pa.Array, pa.Array]:
        try:
            found = framed(b"", header)
        except RecordError as error:
            return self._refused(len(payloads), str(error))
        if found.lead:
            payloads = pc.binary_join_element_wise(_binary(found.lead), payloads, _binary(b""))
        return self._of_schema(found.key, payloads, 0)

    def _of_schema(self, key: SchemaKey, values: pa.Array, after: int) -> tuple[pa.Array, pa.Array]:
        """Return the columns of values of one schema; the payload begins after so many bytes."""
        try:
            if key not in self._columns:
                self._columns[key] = self._made(key)
        except RecordError as error:
            return self._refused(len(values), str(error))
        column = self._columns[key]
        if isinstance(column, str):
            return self._refused(len(values), column)
        found, faults = column.decoded(values, after)
        reasons = pa.nulls(len(values), _TEXT)
        if faults:
            reasons = pa.array([faults.get(place) for place in range(len(values))], _TEXT)
        return self._fitted(found), reasons

    def _refused(self, count: int, reason: str) -> tuple[pa.Array, pa.Array]:
        return pa.nulls(count, self._type), pa.repeat(pa.scalar(reason, _TEXT), count)

    def _made(self, key: SchemaKey) -> ValueColumn | str:
        writer = self._reader if key.id == self._reader.id else self._schema_of(key)
        try:
            return self._reader.column(writer)
        except (ValueError, RecordError) as error:
            return f"its schema, {key}, cannot be read with id {self._reader.id}, which defines the columns: {error}"

    def _fitted(self, found: pa.Array) -> pa.Array:
        is_struct = pa.types.is_struct(found.type)
        columns = [found.field(number) for number in range(found.type.num_fields)] if is_struct else [found]
        mask = found.is_null() if is_struct and found.null_count else None
        columns += [pa.nulls(len(found), field.type) for field in list(self._type)[len(columns) :]]
        return pa.StructArray.from_arrays(columns, fields=list(self._type), mask=mask)


def _is_prefix(prefix: bytes) -> bool:
    return len(prefix) == PREFIX and prefix.startswith(_MAGIC)


def _marks(headers: pa.Array) -> dict[int, bytes]:
    """Return the headers that name the schema of a value, by the number of its row: the last one of each counts."""
    if headers.null_count == len(headers):
        return {}
    flat = headers.flatten()
    is_mark = pc.equal(flat.field(0), pa.scalar(VALUE_HEADER))
    rows = pc.list_parent_indices(headers).filter(is_mark).to_pylist()
    found = dict(zip(rows, flat.field(1).filter(is_mark).to_pylist(), strict=True))
    return {row: mark for row, mark in found.items() if mark is not None}


def _binary(data: bytes) -> pa.Scalar:
    return pa.scalar(data, pa.binary())


def _numbers(where: pa.Array) -> pa.Array:
    return pc.subtract(pc.cumulative_sum(where.cast(_LONG)), _ONE)


_VALUE, _TOPIC = "value", "topic"


class RegistryBytes:
    """Converts the column `value` of many batches of records; each topic has its own schemas in the registry."""

    def __init__(self, converter: Converter, topic: str | None) -> None:
        """`topic`: of all records; None: they name theirs in the column `topic`."""
        self._converter = converter
        self._topic = topic

    def written(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch whose values are bytes.

        Raises UnavailableError if the registry is away, RecordError if it or the format refuses the values, and
        ConfigError for columns that have no schema, and for rows without a topic.
        """
        column = batch[_VALUE]
        try:
            schema = schema_of_column(column.type, _VALUE, is_of_spark=True)
        except SchemaError as error:
            raise ConfigError(f"the columns have no schema in a registry: {error} in transforms.sql") from error
        if schema.type is not SchemaType.STRUCT:
            schema = schema.optional()
        values = _python(column)
        topics = topic_names(batch[_TOPIC]) if self._topic is None else Repeated(self._topic, len(values))
        made = settled(lambda: self._bytes(topics, schema, values))
        arrays = [pa.array(list(made), pa.binary()) if name == _VALUE else batch[name] for name in batch.schema.names]
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    def _bytes(self, topics: Sequence[str], schema: Schema, values: Sequence[Any]) -> Sequence[bytes | None]:
        made = column_to_bytes(self._converter, topics, schema, values)
        if made is None:  # one of them does not fit, or the registry has something against them: what is said now
            pairs = zip(topics, values, strict=True)
            made = [self._converter.from_connect_data(topic, schema, value) for topic, value in pairs]
        return made


def _python(column: pa.Array) -> list[Any]:
    """Return values as Connect has them: maps are dictionaries, and timestamps are milliseconds, in any year."""
    kind = column.type
    if pa.types.is_struct(kind):
        parts = [_python(part) for part in column.flatten()]
        names = [field.name for field in kind]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)] if parts else [{}] * len(column)
        there = column.is_valid().to_pylist()
        return [row if is_there else None for row, is_there in zip(rows, there, strict=True)]
    if pa.types.is_map(kind):
        keys, items = column.keys.to_pylist(), _python(column.items)
        return _cut(column, [(key, item) for key, item in zip(keys, items, strict=True)], dict)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _cut(column, _python(column.values), list)
    if pa.types.is_timestamp(kind):  # Spark's are in microseconds
        return [None if micros is None else micros // 1_000 for micros in column.cast(pa.int64()).to_pylist()]
    found: list[Any] = column.to_pylist()
    return found


def _cut(column: Any, items: list[Any], kind: type[Any]) -> list[Any]:
    return [
        kind(items[start:end]) if is_there else None
        for (start, end), is_there in zip(
            pairwise(column.offsets.to_pylist()), column.is_valid().to_pylist(), strict=True
        )
    ]
