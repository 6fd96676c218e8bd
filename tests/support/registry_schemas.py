"""Schemas of Kafka Connect, and values that fit them, for Hypothesis."""

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

from hypothesis import strategies as st

from fencepost.record import Field, Schema, SchemaType
from fencepost.record.java_integer import INTEGER_BITS
from fencepost.record.schema import DATE, DECIMAL_NAME, TIME, TIMESTAMP, decimal

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_FLOAT32 = st.floats(width=32, allow_nan=False)
_SIMPLE = [Schema(kind) for kind in SchemaType if kind not in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)]
_SCALARS = st.sampled_from([*_SIMPLE, DATE, TIME, TIMESTAMP, decimal(0), decimal(2), decimal(9)])
KEYS = st.sampled_from([Schema(SchemaType.STRING), Schema(SchemaType.INT32), Schema(SchemaType.INT64)])


def _decorated(schemas: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    def decorate(schema: Schema, is_optional: bool, version: int | None, doc: str | None) -> Schema:
        return replace(schema, is_optional=is_optional, version=schema.version or version, doc=doc)

    versions = st.none() | st.integers(1, 9)
    return st.builds(decorate, schemas, st.booleans(), versions, st.none() | _TEXT.filter(bool))


@st.composite
def _structs(draw: st.DrawFn, parts: st.SearchStrategy[Schema]) -> Schema:
    names = draw(st.lists(NAMES, max_size=5, unique_by=str.lower))
    fields = tuple(Field(name, draw(parts)) for name in names)
    return Schema(SchemaType.STRUCT, fields=fields)


def _compound(parts: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(
        st.builds(lambda items: Schema(SchemaType.ARRAY, value_schema=items), parts),
        st.builds(lambda k, v: Schema(SchemaType.MAP, key_schema=k, value_schema=v), KEYS, parts),
        _structs(parts),
    )


def _named(schema: Schema, numbers: Iterator[int]) -> Schema:
    """Give each struct a name of its own."""
    name = f"made.S{next(numbers)}" if schema.type is SchemaType.STRUCT else schema.name
    return replace(
        schema,
        name=name,
        fields=tuple(Field(field.name, _named(field.schema, numbers)) for field in schema.fields),
        value_schema=None if schema.value_schema is None else _named(schema.value_schema, numbers),
    )


_PARTS = st.recursive(_decorated(_SCALARS), lambda parts: _decorated(_compound(parts)), max_leaves=8)
SCHEMAS = _PARTS.map(lambda schema: _named(schema, count(1)))
STRUCTS = _decorated(_structs(_PARTS)).map(lambda schema: _named(schema, count(1)))


def drawn(data: st.DataObject, schema: Schema) -> Any:
    """Draw a value that fits the schema."""
    return _value(data.draw, schema)


def drawn_column(data: st.DataObject, schema: Schema) -> list[Any]:
    """Draw a few values that fit the schema."""
    return [drawn(data, schema) for _ in range(data.draw(st.integers(0, 4)))]


def _value(draw: Callable[[st.SearchStrategy[Any]], Any], schema: Schema) -> Any:
    if schema.is_optional and draw(st.booleans()):
        return None
    kind = schema.type
    if kind is SchemaType.ARRAY:
        return [_value(draw, _part(schema.value_schema)) for _ in range(draw(_SIZES))]
    if kind is SchemaType.MAP:
        key, value = _part(schema.key_schema), _part(schema.value_schema)
        return {_value(draw, key): _value(draw, value) for _ in range(draw(_SIZES))}
    if kind is SchemaType.STRUCT:
        return {field.name: _value(draw, field.schema) for field in schema.fields}
    if schema.name == DECIMAL_NAME:
        scale = int(dict(schema.parameters)["scale"])
        return Decimal(draw(_DIGITS)).scaleb(-scale)
    return draw(_LOGICAL[schema.name] if schema.name in _LOGICAL else _PLAIN[kind])


_SIZES = st.integers(0, 3)
_DIGITS = st.integers(-(10**20), 10**20)


def _integers(kind: SchemaType) -> st.SearchStrategy[int]:
    limit = 1 << (INTEGER_BITS[kind] - 1)
    return st.integers(-limit, limit - 1)


_PLAIN: dict[SchemaType, st.SearchStrategy[Any]] = {
    **{kind: _integers(kind) for kind in INTEGER_BITS},
    SchemaType.FLOAT32: _FLOAT32,
    SchemaType.FLOAT64: st.floats(allow_nan=False),
    SchemaType.BOOLEAN: st.booleans(),
    SchemaType.STRING: _TEXT,
    SchemaType.BYTES: st.binary(max_size=12),
}


def _moment(value: dt.datetime) -> dt.datetime:
    return value.replace(microsecond=value.microsecond // 1000 * 1000, tzinfo=dt.UTC)


_LOGICAL: dict[str | None, st.SearchStrategy[Any]] = {
    DATE.name: st.dates(),
    TIME.name: st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    TIMESTAMP.name: st.datetimes().map(_moment),
}


def _part(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema
