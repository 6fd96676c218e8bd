"""Spark columns as the JSON that Kafka Connect's JsonConverter writes, built in the JVM.

With a schema, dates, times, timestamps, decimals and binaries have the forms of Connect's logical types, whose times
and timestamps are in milliseconds. Without a schema they have Spark's forms, with microseconds if there are any.
"""

from collections.abc import Callable
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
# A decimal of up to 18 digits is stored as an unscaled long: eight bytes, which Connect reads as a whole number.
_LONG_DIGITS = 18
_TIMES = (T.TimestampType, T.TimestampNTZType)
_MICROS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


def json_value(column: Any, kind: Any) -> Any:
    """Return the JSON text of a column of type `kind`; null for a null."""
    wrapped = F.to_json(F.array(_with_micros(column, kind)), {"ignoreNullFields": "false"})
    return F.when(column.isNotNull(), wrapped.substr(F.lit(2), F.length(wrapped) - 2))


def json_struct(columns: Any, kind: Any) -> Any:
    """Return the JSON object of a struct column of type `kind`, null fields included."""
    return F.to_json(_with_micros(columns, kind), {"ignoreNullFields": "false"})


def envelope(column: Any, kind: Any, *, is_optional: bool) -> Any:
    """Return `{"schema":…,"payload":…}` of a column of type `kind`."""
    payload = _each_leaf(column, kind, _logical_form)
    wrapped = F.to_json(F.array(payload), {"ignoreNullFields": "false"})
    text = wrapped.substr(F.lit(2), F.length(wrapped) - 2)
    before, after = around_payload(kind, is_optional=is_optional)
    return F.when(column.isNotNull(), F.concat(F.lit(before), text, F.lit(after)))


def around_payload(kind: Any, *, is_optional: bool = False) -> tuple[str, str]:
    """Return the text before and after each payload of type `kind`. Raises ConfigError for a type without a schema."""
    schema = {**connect_schema(kind), "optional": is_optional}
    return f'{{"schema":{orjson.dumps(schema).decode()},"payload":', "}"


def connect_schema(kind: Any) -> dict[str, Any]:
    """Return Connect's schema, as JSON, of a Spark type. Raises ConfigError for a type that has none."""
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
    if isinstance(kind, _TIMES):
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


def _each_leaf(column: Any, kind: Any, changed: Callable[[Any, Any], Any]) -> Any:
    """Return the column with `changed(column, type)` in place of every leaf: all but structs, arrays and maps.

    Keys of maps stay.
    """
    if isinstance(kind, T.StructType):
        members = [_each_leaf(column.getField(f.name), f.dataType, changed).alias(f.name) for f in kind.fields]
        return F.when(column.isNotNull(), F.struct(*members))
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda item: _each_leaf(item, kind.elementType, changed))
    if isinstance(kind, T.MapType):
        return F.transform_values(column, lambda _, value: _each_leaf(value, kind.valueType, changed))
    return changed(column, kind)


def _with_micros(column: Any, kind: Any) -> Any:
    """Return the column with times as text where `to_json`, which writes milliseconds, would cut off microseconds."""
    return _each_leaf(column, kind, _time_text) if _has_times(kind) else column


def _time_text(column: Any, kind: Any) -> Any:
    if not isinstance(kind, _TIMES):
        return column
    # In the form of `to_json`: a time without a zone must not be moved into a zone in which it may not exist.
    formats = {"timestampFormat": f"{_MICROS}XXX", "timestampNTZFormat": _MICROS}
    fine, short = (F.to_json(F.struct(column.alias("t")), options) for options in (formats, {}))
    text = F.when(F.unix_micros(column.cast("timestamp")) % 1_000 == 0, short).otherwise(fine)
    return F.when(column.isNotNull(), text.substr(F.lit(len('{"t":"') + 1), F.length(text) - len('{"t":""}')))


def _has_times(kind: Any) -> bool:
    if isinstance(kind, T.StructType):
        return any(_has_times(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _has_times(kind.elementType)
    if isinstance(kind, T.MapType):
        return _has_times(kind.valueType)
    return isinstance(kind, _TIMES)


def _logical_form(column: Any, kind: Any) -> Any:
    """Return a value of a logical type in the form that its schema announces."""
    if isinstance(kind, T.DateType):
        return F.unix_date(column)
    if isinstance(kind, T.TimeType):
        return F.time_to_millis(column)
    if isinstance(kind, _TIMES):
        return F.unix_millis(column.cast("timestamp"))
    if isinstance(kind, T.DecimalType):
        return _decimal(column, kind)
    return column


def _decimal(column: Any, kind: Any) -> Any:
    if kind.precision > _LONG_DIGITS:
        return column.cast("string")
    unscaled = (column.cast(T.DecimalType(38, kind.scale)) * F.lit(10**kind.scale)).cast("long")
    return F.unhex(F.lpad(F.hex(unscaled), 16, "0"))
