"""Rows as values that a converter with a schema registry writes, on executors."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from fencepost.api import Converter, Schema, SchemaType
from fencepost.builtin.converter.registry.avro.names import PRECISION
from fencepost.config import ConfigError
from fencepost.record import Field, Repeated
from fencepost.record.schema import DATE, DECIMAL_NAME, TIME, TIMESTAMP
from fencepost.spark.row.columns import topic_names
from fencepost.spark.row.registry import settled
from fencepost.task.conversion.columns import column_to_bytes

_PLAIN: Mapping[pa.DataType, SchemaType] = {
    pa.int8(): SchemaType.INT8,
    pa.int16(): SchemaType.INT16,
    pa.int32(): SchemaType.INT32,
    pa.int64(): SchemaType.INT64,
    pa.float32(): SchemaType.FLOAT32,
    pa.float64(): SchemaType.FLOAT64,
    pa.bool_(): SchemaType.BOOLEAN,
    pa.string(): SchemaType.STRING,
    pa.large_string(): SchemaType.STRING,
    pa.binary(): SchemaType.BYTES,
    pa.large_binary(): SchemaType.BYTES,
}
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
        schema = connect_schema(column.type, is_optional=not pa.types.is_struct(column.type))
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


def connect_schema(kind: pa.DataType, *, is_optional: bool = True) -> Schema:
    """Return Connect's schema of a column. Raises ConfigError for a type that has none."""
    plain = _PLAIN.get(kind)
    if plain is not None:
        return Schema(plain, is_optional=is_optional)
    if pa.types.is_struct(kind):
        fields = tuple(Field(field.name, connect_schema(field.type)) for field in kind)
        return Schema(SchemaType.STRUCT, is_optional=is_optional, fields=fields)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return Schema(SchemaType.ARRAY, is_optional=is_optional, value_schema=connect_schema(kind.value_type))
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        keys, values = Schema(SchemaType.STRING), connect_schema(kind.item_type)
        return Schema(SchemaType.MAP, is_optional=is_optional, key_schema=keys, value_schema=values)
    if pa.types.is_decimal(kind):
        parameters = (("scale", str(kind.scale)), (PRECISION, str(kind.precision)))
        return Schema(SchemaType.BYTES, is_optional, name=DECIMAL_NAME, version=1, parameters=parameters)
    for is_it, schema in _LOGICAL:
        if is_it(kind):
            return schema.optional() if is_optional else schema
    raise ConfigError(f"a column of type {kind} has no schema in a registry: cast it in transforms.sql")


_LOGICAL: Sequence[tuple[Callable[[pa.DataType], bool], Schema]] = (
    (pa.types.is_date, DATE),
    (pa.types.is_time, TIME),
    (pa.types.is_timestamp, TIMESTAMP),
)


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
    """Return the items of each list of a column, out of those of all."""
    return [
        kind(items[start:end]) if is_there else None
        for (start, end), is_there in zip(
            pairwise(column.offsets.to_pylist()), column.is_valid().to_pylist(), strict=True
        )
    ]
