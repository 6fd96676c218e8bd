"""Values as Java prints them."""

from collections.abc import Mapping
from typing import Any

from fencepost.record.java_float import java_float_text, shortest_float32
from fencepost.record.schema import Schema, SchemaType


def java_text(schema: Schema | None, value: Any) -> str:
    """Return a value as Java's `toString` does. Raises TypeError for bytes, which have no text in Java."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("bytes have no text in Java")
    if isinstance(value, Mapping):
        if schema is not None and schema.type is SchemaType.STRUCT:
            members = ((f.name, f.schema, value.get(f.name)) for f in schema.fields)
            return "Struct{" + ",".join(f"{n}={java_text(s, v)}" for n, s, v in members if v is not None) + "}"
        of_key, of_value = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
        return "{" + ", ".join(f"{java_text(of_key, k)}={java_text(of_value, v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        member = schema.value_schema if schema is not None else None
        return "[" + ", ".join(java_text(member, v) for v in value) + "]"
    if isinstance(value, float):
        is_short = schema is not None and schema.type is SchemaType.FLOAT32
        return java_float_text(shortest_float32(value) if is_short else value)
    return "null" if value is None else str(value)
