"""Values as Java prints them."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any

from fencepost.record.java_value import java_float_text, shortest_float32
from fencepost.record.schema import Schema
from fencepost.record.type_table import SchemaType


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
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is str:
        return values
    if kind in _PRINTED:
        return list(map(str, values))
    if kind is bool:
        return ["true" if value else "false" for value in values]
    if kind is float and (schema is None or schema.type is not SchemaType.FLOAT32):
        return [repr(value) if 1e-3 <= value < 1e7 else java_float_text(value) for value in values]
    if kind is dict and schema is not None and schema.type is SchemaType.STRUCT and schema.fields:
        return _struct_texts(schema, values, of_bytes)
    return [java_text(schema, value, of_bytes) for value in values]


def _members(name: str, structs: Sequence[Any]) -> list[Any]:
    try:
        return list(map(itemgetter(name), structs))
    except KeyError:  # a field that is not given is null
        return [struct.get(name) for struct in structs]


_PRINTED: frozenset[type | None] = frozenset({int, Decimal, dt.datetime, dt.date, dt.time})


def _struct_texts(schema: Schema, structs: Sequence[Any], of_bytes: Callable[[Any], str]) -> list[str]:
    columns: list[Sequence[str]] = []
    template = ""
    for field in schema.fields:
        column = _members(field.name, structs)
        begin = f",{field.name}="
        if type(None) not in set(map(type, column)):
            columns.append(java_texts(field.schema, column, of_bytes))
            template += begin.replace("%", "%%") + "%s"
        else:
            present = iter(java_texts(field.schema, [value for value in column if value is not None], of_bytes))
            columns.append(["" if value is None else begin + next(present) for value in column])
            template += "%s"
    if template.startswith(","):  # else the comma is in the text of the first field that is not null
        template = f"Struct{{{template[1:]}}}"
        return [template % row for row in zip(*columns, strict=True)]
    return [f"Struct{{{(template % row)[1:]}}}" for row in zip(*columns, strict=True)]
