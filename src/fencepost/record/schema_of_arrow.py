"""The schema of rows with Arrow's columns, and Arrow's values as the values of that schema."""

from typing import Any

import pyarrow as pa

from fencepost.record.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaError,
    decimal,
)

_PLAIN: dict[pa.DataType, Schema] = {
    pa.bool_(): BOOLEAN,
    pa.int8(): INT8,
    pa.int16(): INT16,
    pa.int32(): INT32,
    pa.int64(): INT64,
    pa.uint8(): INT16,
    pa.uint16(): INT32,
    pa.uint32(): INT64,
    pa.float32(): FLOAT32,
    pa.float64(): FLOAT64,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.binary_view(): BYTES,
    pa.date32(): DATE,
    pa.date64(): DATE,
}


def schema_of_arrow(columns: pa.Schema, name: str | None = None) -> Schema:
    """Return the schema of rows with these columns. Raises SchemaError, which names the column."""
    return Schema.struct({field.name: _of_field(field, field.name) for field in columns}, name=name)


def rows_of_arrow(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table or a record batch, with values that fit its `schema_of_arrow`.

    Connect's times have milliseconds: finer digits are cut off. Raises ValueError for a map that has a key twice.
    """
    columns = pa.schema([field.with_type(_in_milliseconds(field.type)) for field in table.schema])
    rows: list[dict[str, Any]] = table.cast(columns, safe=False).to_pylist(maps_as_pydicts="strict")
    return rows


def _of_field(field: pa.Field, where: str) -> Schema:
    schema = _of_type(field.type, where)
    return schema.optional() if field.nullable else schema


def _of_type(kind: pa.DataType, where: str) -> Schema:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if pa.types.is_time(kind):
        return TIME
    if pa.types.is_decimal(kind):
        return decimal(kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return BYTES
    if pa.types.is_dictionary(kind):
        return _of_type(kind.value_type, where)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return Schema.array(_of_field(kind.value_field, where))
    if pa.types.is_map(kind):
        return Schema.map(_of_type(kind.key_type, where), _of_field(kind.item_field, where))
    if pa.types.is_struct(kind):
        return Schema.struct({member.name: _of_field(member, f"{where}.{member.name}") for member in kind})
    raise SchemaError(f"column {where}: Kafka Connect has no type for Arrow's {kind}; cast the column")


def _in_milliseconds(kind: pa.DataType) -> pa.DataType:
    """Return a type whose values can become Python's: those with nanoseconds cannot."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ms", kind.tz)
    if pa.types.is_time(kind):
        return pa.time32("ms")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_milliseconds(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([member.with_type(_in_milliseconds(member.type)) for member in kind])
    return kind
