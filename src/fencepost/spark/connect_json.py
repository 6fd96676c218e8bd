"""Spark columns as the JSON that Kafka Connect's JsonConverter writes, built in the JVM.

With a schema, dates, times, timestamps, decimals and binaries take the forms of Connect's logical types, of which times
and timestamps have milliseconds; without one, Spark's.
"""

from typing import Any

import orjson
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fencepost.config import ConfigError

_DATA = "org.apache.kafka.connect.data."
_PLAIN: dict[type[Any], str] = {
    T.ByteType: "int8",
    T.ShortType: "int16",
    T.IntegerType: "int32",
    T.LongType: "int64",
    T.FloatType: "float",
    T.DoubleType: "double",
    T.BooleanType: "boolean",
    T.StringType: "string",
    T.VarcharType: "string",
    T.CharType: "string",
    T.BinaryType: "bytes",
}
# A decimal of up to 18 digits is a long without its point: eight bytes, which Connect reads as a whole number.
_LONG_DIGITS = 18


def json_value(column: Any) -> Any:
    """Return the JSON text of a column of any type; null where the column is."""
    wrapped = F.to_json(F.array(column), {"ignoreNullFields": "false"})
    return F.when(column.isNotNull(), wrapped.substr(F.lit(2), F.length(wrapped) - 2))


def json_struct(columns: Any) -> Any:
    """Return the JSON object of a struct column, null fields included."""
    return F.to_json(columns, {"ignoreNullFields": "false"})


def envelope(column: Any, kind: Any, *, is_optional: bool) -> Any:
    """Return `{"schema":…,"payload":…}` of a column of type `kind`."""
    payload = _payload(column, kind)
    text = json_struct(payload) if isinstance(kind, T.StructType) else json_value(payload)
    before, after = around_payload(kind, is_optional=is_optional)
    return F.when(column.isNotNull(), F.concat(F.lit(before), text, F.lit(after)))


def around_payload(kind: Any, *, is_optional: bool = False) -> tuple[str, str]:
    """Return what stands before and behind each payload of type `kind`. Raises ConfigError for one without a schema."""
    schema = {**connect_schema(kind), "optional": is_optional}
    return f'{{"schema":{orjson.dumps(schema).decode()},"payload":', "}"


def connect_schema(kind: Any) -> dict[str, Any]:
    """Return Connect's schema, as JSON, of a Spark type. Raises ConfigError for one that has none."""
    plain = _PLAIN.get(type(kind))
    if plain is not None:
        return {"type": plain, "optional": True}
    if isinstance(kind, T.StructType):
        fields = [{**connect_schema(f.dataType), "field": f.name} for f in kind.fields]
        return {"type": "struct", "fields": fields, "optional": True}
    if isinstance(kind, T.ArrayType):
        return {"type": "array", "items": connect_schema(kind.elementType), "optional": True}
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        keys = {"type": "string", "optional": False}
        return {"type": "map", "keys": keys, "values": connect_schema(kind.valueType), "optional": True}
    return _logical(kind)


def _logical(kind: Any) -> dict[str, Any]:
    if isinstance(kind, T.DateType):
        return {"type": "int32", "optional": True, "name": _DATA + "Date", "version": 1}
    if isinstance(kind, T.TimeType):
        return {"type": "int32", "optional": True, "name": _DATA + "Time", "version": 1}
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return {"type": "int64", "optional": True, "name": _DATA + "Timestamp", "version": 1}
    if isinstance(kind, T.DecimalType):
        if kind.precision > _LONG_DIGITS:
            return {"type": "string", "optional": True}
        scale = {"scale": str(kind.scale)}
        return {"type": "bytes", "optional": True, "name": _DATA + "Decimal", "version": 1, "parameters": scale}
    raise ConfigError(
        f"a column of type {kind.simpleString()} has no Connect schema: cast it in transforms.sql, "
        "or set value.converter.schemas.enable=false"
    )


def _payload(column: Any, kind: Any) -> Any:
    """Return the column with every logical type in the form that its schema promises."""
    if isinstance(kind, T.StructType):
        members = [_payload(column.getField(f.name), f.dataType).alias(f.name) for f in kind.fields]
        return F.when(column.isNotNull(), F.struct(*members))
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda item: _payload(item, kind.elementType))
    if isinstance(kind, T.MapType):
        return F.transform_values(column, lambda _, value: _payload(value, kind.valueType))
    if isinstance(kind, T.DateType):
        return F.unix_date(column)
    if isinstance(kind, T.TimeType):
        return F.time_to_millis(column)
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return F.unix_millis(column.cast("timestamp"))
    if isinstance(kind, T.DecimalType):
        return _decimal(column, kind)
    return column


def _decimal(column: Any, kind: Any) -> Any:
    if kind.precision > _LONG_DIGITS:
        return column.cast("string")
    unscaled = (column.cast(T.DecimalType(38, kind.scale)) * F.lit(10**kind.scale)).cast("long")
    return F.unhex(F.lpad(F.hex(unscaled), 16, "0"))
