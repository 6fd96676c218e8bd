"""Defaults of fields, which Avro keeps as JSON: bytes as text with a character for each byte, logical types plain."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.logical import LOGICAL_TYPES
from fencepost.builtin.converter.registry.avro.names import KEY, VALUE


def to_json(schema: Schema, value: Any) -> Any:
    """Return the default of a Connect schema for Avro."""
    if value is None:
        return None
    logical = LOGICAL_TYPES.get(schema.name)
    plain = value if logical is None else logical.to_plain(schema, value)
    kind = schema.type
    if kind is SchemaType.BYTES:
        return bytes(plain).decode("iso-8859-1")
    if kind is SchemaType.ARRAY and schema.value_schema is not None:
        return [to_json(schema.value_schema, item) for item in plain]
    if kind is SchemaType.MAP and schema.value_schema is not None and schema.key_schema is not None:
        if schema.key_schema.type is SchemaType.STRING and not schema.key_schema.is_optional:
            return {key: to_json(schema.value_schema, item) for key, item in plain.items()}
        return [{KEY: to_json(schema.key_schema, k), VALUE: to_json(schema.value_schema, v)} for k, v in plain.items()]
    if kind is SchemaType.STRUCT:
        return {field.name: to_json(field.schema, plain.get(field.name)) for field in schema.fields}
    return plain


def from_json(schema: Schema, value: Any) -> Any:
    """Return a default of Avro as a value of the Connect schema. Raises RecordError if it does not fit."""
    try:
        return _from_json(replace(schema, is_optional=True), value)
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
        raise RecordError(
            f"The default {str(value)[:80]!r} of an Avro field does not fit {schema.type.name}"
        ) from error


def _from_json(schema: Schema, value: Any) -> Any:
    if value is None:
        if schema.is_optional:
            return None
        raise ValueError("null")
    plain = _plain(schema, value)
    logical = LOGICAL_TYPES.get(schema.name)
    return plain if logical is None else logical.from_plain(schema, plain)


def _plain(schema: Schema, value: Any) -> Any:
    kind = schema.type
    if kind is SchemaType.BYTES:
        return bytes(value.encode("iso-8859-1"))
    if kind is SchemaType.ARRAY and schema.value_schema is not None:
        return [_from_json(schema.value_schema, item) for item in value]
    if kind is SchemaType.MAP and schema.key_schema is not None and schema.value_schema is not None:
        pairs = value.items() if isinstance(value, Mapping) else [(item[KEY], item[VALUE]) for item in value]
        return {_from_json(schema.key_schema, k): _from_json(schema.value_schema, v) for k, v in pairs}
    if kind is SchemaType.STRUCT:
        return {field.name: _member(field.schema, value, field.name) for field in schema.fields}
    if kind is SchemaType.BOOLEAN or kind is SchemaType.STRING:
        if isinstance(value, bool if kind is SchemaType.BOOLEAN else str):
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        is_float = kind in (SchemaType.FLOAT32, SchemaType.FLOAT64)
        if is_float or value == int(value):
            return float(value) if is_float else int(value)
    elif kind in (SchemaType.FLOAT32, SchemaType.FLOAT64) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    raise ValueError(value)


def _member(schema: Schema, value: Any, name: str) -> Any:
    if name not in value and schema.default is not None:
        return schema.default
    return _from_json(schema, value.get(name))
