"""Hypothesis strategies for schemas, and for values that fit them."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from fencepost.api import Schema, SchemaType
from fencepost.record import Field
from fencepost.record.java_value import float32
from fencepost.record.schema import DATE, TIME, TIMESTAMP, decimal
from fencepost.record.type_table import DECIMAL_NAME, INTEGER_BITS

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_NAMES = st.sampled_from(["a", "b", "c", "ä", "a.b", "schema", "payload"])
_LOGICAL = {
    DATE.name: st.dates(),
    TIME.name: st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    TIMESTAMP.name: st.datetimes(timezones=st.just(dt.UTC)).map(
        lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    ),
}
_PLAIN = [Schema(kind) for kind in SchemaType if kind not in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)]


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Schema:
    """Schemas of all types, with names, versions, defaults and parameters; structs are nested `depth` times."""
    found = draw(st.sampled_from([*_PLAIN, DATE, TIME, TIMESTAMP, decimal(2)]))
    if depth and draw(st.booleans()):
        found = draw(_nested(depth - 1))
    if found.name is None:
        found = replace(
            found,
            name=draw(st.none() | _NAMES),
            version=draw(st.none() | st.integers(1, 9)),
            parameters=tuple(draw(st.dictionaries(_NAMES, _TEXT, max_size=1)).items()),
        )
    found = replace(found, is_optional=draw(st.booleans()), doc=draw(st.none() | _TEXT))
    return replace(found, default=draw(st.none() | values_of(replace(found, is_optional=False))))


def _nested(depth: int) -> st.SearchStrategy[Schema]:
    part = schemas(depth=depth)
    fields = st.lists(st.builds(Field, _NAMES, part), unique_by=lambda field: field.name, max_size=4)
    keys = st.sampled_from([Schema(SchemaType.STRING), Schema(SchemaType.INT32)])
    return st.one_of(
        st.builds(lambda item: Schema(SchemaType.ARRAY, value_schema=item), part),
        st.builds(lambda key, item: Schema(SchemaType.MAP, key_schema=key, value_schema=item), keys, part),
        st.builds(lambda members: Schema(SchemaType.STRUCT, fields=tuple(members)), fields),
    )


def values_of(schema: Schema) -> st.SearchStrategy[Any]:
    """Values that fit the schema; None, too, if it is optional."""
    found = _values_of(schema)
    return st.none() | found if schema.is_optional else found


def _values_of(schema: Schema) -> st.SearchStrategy[Any]:
    kind = schema.type
    if schema.name == DECIMAL_NAME:
        scale = int(dict(schema.parameters)["scale"])
        return st.integers(-(10**30), 10**30).map(lambda number: Decimal(number).scaleb(-scale))
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if kind in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[kind] - 1)
        return st.integers(-limit, limit - 1)
    if kind is SchemaType.STRUCT:
        return st.fixed_dictionaries({field.name: values_of(field.schema) for field in schema.fields})
    if kind is SchemaType.ARRAY:
        assert schema.value_schema is not None
        return st.lists(values_of(schema.value_schema), max_size=3)
    if kind is SchemaType.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        return st.dictionaries(_values_of(schema.key_schema), values_of(schema.value_schema), max_size=3)
    return {
        SchemaType.FLOAT32: st.floats(width=32, allow_nan=False).map(float32),
        SchemaType.FLOAT64: st.floats(allow_nan=False),
        SchemaType.BOOLEAN: st.booleans(),
        SchemaType.STRING: _TEXT,
        SchemaType.BYTES: st.binary(max_size=12),
    }[kind]
