"""Converts values of a schema to what `orjson` can encode: compiled once per schema into nested functions."""

import base64
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import orjson

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter import scalar
from fencepost.builtin.converter.compound import Encode, part, struct_encoder
from fencepost.builtin.converter.logical import LOGICAL_TYPES, has_many_zeros, unscaled, with_scale
from fencepost.record.java_float import shortest_float32
from fencepost.record.java_integer import INTEGER_BITS
from fencepost.record.schema import DECIMAL_NAME, SchemaType

_NULL_KEY = "null"  # as Kafka's converter writes it
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1  # the integers that orjson encodes


class EncodingOptions(NamedTuple):
    """The settings of the converter that change its output."""

    is_decimal_numeric: bool = False
    is_null_replaced: bool = True


def encoder(schema: Schema, options: EncodingOptions) -> Encode:
    """Return a function from a value of the schema to plain JSON values; it raises RecordError for a misfit."""
    encode = _decimal_as_number(schema) if _is_number(schema, options) else _with_logical(schema, options)
    default = schema.default
    absent = encode(default) if default is not None and options.is_null_replaced else None

    def encode_or_null(value: Any) -> Any:
        if value is not None:
            return encode(value)
        if absent is not None or schema.is_optional:
            return absent
        raise RecordError("Conversion error: null value for field that is required and has no default value")

    return encode_or_null


def encode_schemaless(value: Any) -> Any:
    """Return plain JSON for a value that `orjson` does not support.

    It has bytes, integers of more than 64 bits, or maps with keys other than text.
    """
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: encode_schemaless(item) for key, item in value.items()}
        return [[encode_schemaless(key), encode_schemaless(item)] for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [encode_schemaless(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return orjson.Fragment(str(value))
    return value


def _is_number(schema: Schema, options: EncodingOptions) -> bool:
    return options.is_decimal_numeric and schema.name == DECIMAL_NAME


def _decimal_as_number(schema: Schema) -> Encode:
    return lambda value: orjson.Fragment(str(with_scale(schema, unscaled(schema, value))))  # 1.28E+5, as in Java


def _with_logical(schema: Schema, options: EncodingOptions) -> Encode:
    encode = _plain(schema, options)
    logical = LOGICAL_TYPES.get(schema.name)
    if logical is None:
        return encode
    return lambda value: encode(logical.to_plain(schema, value))


def _plain(schema: Schema, options: EncodingOptions) -> Encode:
    kind = schema.type
    if kind in INTEGER_BITS:
        return scalar.integer(schema, INTEGER_BITS[kind])
    if kind in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return _float32 if kind is SchemaType.FLOAT32 else _float
    if kind is SchemaType.STRUCT:
        return _struct(schema, options)
    if kind is SchemaType.ARRAY:
        return _array(schema, options)
    if kind is SchemaType.MAP:
        return _map(schema, options)
    return {SchemaType.BOOLEAN: scalar.boolean, SchemaType.STRING: scalar.text, SchemaType.BYTES: _bytes}[kind]


def _float(value: Any) -> float | str:
    number = scalar.floating(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")


def _float32(value: Any) -> float | str:
    number = _float(value)
    try:
        return shortest_float32(number) if isinstance(number, float) else number
    except OverflowError:
        raise scalar.misfit(SchemaType.FLOAT32, value) from None


def _bytes(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    raise RecordError(f"Invalid type for bytes type: {type(value).__name__}")


def _array(schema: Schema, options: EncodingOptions) -> Encode:
    encode = encoder(part(schema.value_schema), options)

    def encode_array(value: Any) -> list[Any]:
        return [encode(item) for item in scalar.items(value)]

    return encode_array


def _map(schema: Schema, options: EncodingOptions) -> Encode:
    key_schema = part(schema.key_schema)
    encode_key = encoder(key_schema, options)
    encode_value = encoder(part(schema.value_schema), options)
    is_object = key_schema.type is SchemaType.STRING

    def encode_map(value: Any) -> Any:
        pairs = [[encode_key(k), encode_value(v)] for k, v in scalar.mapping(value, SchemaType.MAP).items()]
        return {_NULL_KEY if key is None else key: item for key, item in pairs} if is_object else pairs

    return encode_map


def _struct(schema: Schema, options: EncodingOptions) -> Encode:
    return struct_encoder([(field.name, field.name, encoder(field.schema, options)) for field in schema.fields])


def decimal_fallback(value: Any) -> Any:
    """Encode a schemaless decimal as a number; for `orjson.dumps(default=…)`."""
    if isinstance(value, Decimal) and value.is_finite() and not has_many_zeros(value):
        return orjson.Fragment(format(value, "f"))
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(type(value).__name__)
