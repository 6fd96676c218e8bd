"""Structs that are columns become the JSON that each of them becomes alone, or are refused as columns."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import Schema
from fencepost.builtin.converter.json import JsonConverter
from fencepost.record import BinaryColumn, Repeated, StructColumn, TypedColumn, Utf8Column
from fencepost.record.schema import INT64, STRING
from support.column_records import sides

CONVERTERS = [
    JsonConverter({"converter.type": "value", **settings})
    for settings in (
        {},
        {"schemas.enable": "false"},
        {"schemas.enable": "false", "decimal.format": "NUMERIC", "replace.null.with.default": "false"},
    )
]


def one_by_one(converter: JsonConverter, column: TypedColumn) -> list[Any]:
    found: list[Any] = []
    for value in column.values:
        try:
            found.append(converter.from_connect_data("t", column.schema, value))
        except Exception as error:
            found.append(error)
    return found


@given(st.integers(1, 4).flatmap(sides), st.sampled_from(CONVERTERS))
def test_struct_columns_are_encoded_as_their_rows(column: TypedColumn, converter: JsonConverter) -> None:
    found = converter.from_column(column.schema, column.values)
    if found is not None:
        assert list(found) == one_by_one(converter, column)


TEXTS = Utf8Column(BinaryColumn(pa.array([b"a", b'q"\\', "ä\n".encode()], pa.binary())))
NESTED = StructColumn({"n": [1, 2, 3], "t": Repeated(None, 3)}, 3)
SCHEMA = Schema.struct(
    {"line": STRING, "n": INT64, "shop": STRING, "in": Schema.struct({"n": INT64, "t": STRING.optional()})}
)
COLUMNS = {"line": TEXTS, "n": [5, -6, 7], "shop": Repeated("north", 3), "in": NESTED}


@pytest.mark.parametrize("converter", CONVERTERS)
@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_struct_columns_of_all_forms_are_encoded_together(converter: JsonConverter, schema: Schema | None) -> None:
    structs = StructColumn(COLUMNS, 3)
    assert converter.from_column(schema, structs) == one_by_one(converter, TypedColumn(schema, structs))


def test_struct_rows_that_are_all_equal_are_encoded_once() -> None:
    structs = StructColumn({"a": Repeated(1, 3)}, 3)
    assert isinstance(CONVERTERS[1].from_column(None, structs), Repeated)
    assert list(CONVERTERS[1].from_column(None, StructColumn({}, 2)) or ()) == [b"{}", b"{}"]
    assert CONVERTERS[1].from_column(None, StructColumn({}, 0)) == []


@pytest.mark.parametrize(
    ("columns", "schema"),
    [
        ({"a": ["x\x7f", "y"]}, None),
        ({"a\x7f": ["x", "y"]}, None),
        ({"a": [1 << 70, 1]}, None),
        ({"a": [1, 2], "b": [1, 2]}, Schema.struct({"a": INT64})),
        ({"a": [1, "2"]}, Schema.struct({"a": INT64})),
        ({}, Schema.struct({"a": INT64})),
    ],
    ids=["mark in a text", "mark in a name", "large number", "unknown field", "misfit", "missing field"],
)
def test_unusual_struct_columns_are_not_encoded_as_columns(columns: dict[str, Any], schema: Schema | None) -> None:
    assert CONVERTERS[1].from_column(schema, StructColumn(columns, 2)) is None
