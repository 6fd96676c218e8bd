"""Parsed JSON as values of a schema."""

import base64
import math
from decimal import Decimal
from typing import Any

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.logical import LOGICAL_TYPES, shown, unscaled, with_scale
from fencepost.record.java_float import float32
from fencepost.record.java_integer import INTEGER_BITS
from fencepost.record.schema import DECIMAL_NAME, SchemaType

JSON_KIND = {dict: "OBJECT", list: "ARRAY", str: "STRING", bool: "BOOLEAN", int: "NUMBER", float: "NUMBER"}


def decode(schema: Schema | None, value: Any, *, is_null_replaced: bool = True) -> Any:
    """Return the value of a payload. Raises RecordError if it does not fit the schema."""
    if schema is None:
        return value
    if value is None:
        if schema.default is not None and is_null_replaced:
            return schema.default
        if schema.is_optional:
            return None
        raise RecordError(f"Invalid null value for required {schema.type.name} field")
    if schema.name == DECIMAL_NAME and isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return with_scale(schema, unscaled(schema, Decimal(value)))
    plain = _plain(schema, value, is_null_replaced)
    logical = LOGICAL_TYPES.get(schema.name)
    return plain if logical is None else logical.from_plain(schema, plain)


def _plain(schema: Schema, value: Any, is_null_replaced: bool) -> Any:
    kind = schema.type
    if kind is SchemaType.STRUCT:
        _require(isinstance(value, dict), "Structs should be encoded as JSON objects", value)
        return {
            field.name: decode(field.schema, value.get(field.name), is_null_replaced=is_null_replaced)
            for field in schema.fields
        }
    if kind is SchemaType.ARRAY:
        _require(isinstance(value, list), "Arrays should be encoded as JSON arrays", value)
        return [decode(schema.value_schema, item, is_null_replaced=is_null_replaced) for item in value]
    if kind is SchemaType.MAP:
        return {
            decode(schema.key_schema, k, is_null_replaced=is_null_replaced): decode(
                schema.value_schema, v, is_null_replaced=is_null_replaced
            )
            for k, v in _pairs(schema, value)
        }
    return _primitive(kind, value)


def _pairs(schema: Schema, value: Any) -> list[tuple[Any, Any]]:
    if schema.key_schema is not None and schema.key_schema.type is SchemaType.STRING:
        _require(isinstance(value, dict), "Maps with string fields should be encoded as JSON objects", value)
        return list(value.items())
    _require(isinstance(value, list), "Maps with non-string fields should be encoded as JSON array of tuples", value)
    for entry in value:
        _require(isinstance(entry, list) and len(entry) == 2, "A map's entries should be arrays of two", entry)
    return [(k, v) for k, v in value]


def _primitive(kind: SchemaType, value: Any) -> Any:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if kind in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[kind] - 1)
        is_in_range = is_number and -limit <= value < limit  # first: an integer of 1e999999999 takes days
        _require(is_in_range and value == int(value), f"{kind.name} should be a whole number in range", value)
        return int(value)
    if kind in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        _require(is_number or value in ("NaN", "Infinity", "-Infinity"), f"{kind.name} should be a number", value)
        return _float64(value, kind) if kind is SchemaType.FLOAT64 else _float32(value)
    if kind is SchemaType.BOOLEAN:
        _require(isinstance(value, bool), "BOOLEAN should be true or false", value)
        return value
    _require(isinstance(value, str), f"{kind.name} should be text", value)
    return value if kind is SchemaType.STRING else _from_base64(value)


def _float64(value: Any, kind: SchemaType) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if isinstance(value, int | Decimal) and math.isinf(number):
        raise RecordError(f"{kind.name} should be a number in range, but found {shown(value)}")
    return number


def _float32(value: Any) -> float:
    try:
        return float32(_float64(value, SchemaType.FLOAT32))
    except OverflowError:
        raise RecordError(f"FLOAT32 should be a number in range, but found {value}") from None


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise RecordError("Invalid bytes field") from error


def _require(is_right: bool, rule: str, value: Any) -> None:
    if not is_right:
        raise RecordError(f"{rule}, but found {JSON_KIND.get(type(value), 'NUMBER')}")
