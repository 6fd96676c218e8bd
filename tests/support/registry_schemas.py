"""Hypothesis strategies for schemas that all formats of a registry can express. `schemas` has values that fit them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from hypothesis import strategies as st

from fencepost.record import Field, Schema, SchemaType
from fencepost.record.schema import DATE, TIME, TIMESTAMP, decimal

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
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
