"""Values as Java prints them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.record.java_float import java_float_text, shortest_float32
from fencepost.record.schema import Schema, SchemaType


def _refused(_: object) -> str:
    raise TypeError("bytes have no text in Java")


def java_text(schema: Schema | None, value: Any, of_bytes: Callable[[Any], str] = _refused) -> str:
    """Return a value as Java's `toString` does. Bytes have no text in Java: `of_bytes` may give them one.

    Raises TypeError for bytes without it.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview):
        return of_bytes(value)
    if isinstance(value, Mapping):
        if schema is not None and schema.type is SchemaType.STRUCT:
            members = [(f.name, f.schema, value.get(f.name)) for f in schema.fields]
            texts = [f"{n}={java_text(s, v, of_bytes)}" for n, s, v in members if v is not None]
            return "Struct{" + ",".join(texts) + "}"
        of_key, of_value = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
        pairs = [f"{java_text(of_key, k, of_bytes)}={java_text(of_value, v, of_bytes)}" for k, v in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        member = schema.value_schema if schema is not None else None
        return "[" + ", ".join([java_text(member, v, of_bytes) for v in value]) + "]"
    if isinstance(value, float):
        is_short = schema is not None and schema.type is SchemaType.FLOAT32
        return java_float_text(shortest_float32(value) if is_short else value)
    return "null" if value is None else str(value)


def java_texts(
    schema: Schema | None, values: Sequence[Any], of_bytes: Callable[[Any], str] = _refused
) -> Sequence[str]:
    """Return the texts of a column of values: what `java_text` returns for each, with one look at their types."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return values
    if kinds == {int}:
        return list(map(str, values))
    if kinds == {dict} and schema is not None and schema.type is SchemaType.STRUCT and schema.fields:
        members = [_members(field.name, field.schema, values, of_bytes) for field in schema.fields]
        return ["Struct{" + ",".join(filter(None, row)) + "}" for row in zip(*members, strict=True)]
    return [java_text(schema, value, of_bytes) for value in values]


def _members(name: str, schema: Schema, structs: Sequence[Any], of_bytes: Callable[[Any], str]) -> Sequence[str | None]:
    """Return a field's part of the texts of structs; None where it is null."""
    begin = f"{name}="
    column = [struct.get(name) for struct in structs]
    if None not in column:
        return [begin + text for text in java_texts(schema, column, of_bytes)]
    return [None if value is None else begin + java_text(schema, value, of_bytes) for value in column]
