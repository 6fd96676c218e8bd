"""The texts of columns are those of their values."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import Schema
from fencepost.record.java_value import java_text, java_texts
from fencepost.record.schema import BOOLEAN, FLOAT32, FLOAT64, INT64, STRING, TIMESTAMP
from support.schemas import schemas, values_of


@given(st.data())
def test_a_column_of_any_schema_has_the_texts_of_its_values(data: st.DataObject) -> None:
    schema = data.draw(st.none() | schemas())
    values = data.draw(st.lists(st.integers() | st.text() if schema is None else values_of(schema), max_size=4))
    assert list(java_texts(schema, values, bytes.hex)) == [java_text(schema, value, bytes.hex) for value in values]


ROW = Schema.struct(
    {
        "a%s": STRING.optional(),
        "b": FLOAT64.optional(),
        "c": FLOAT32.optional(),
        "d": BOOLEAN.optional(),
        "e": TIMESTAMP.optional(),
        "f": INT64.optional(),
    }
)
VALUES: list[dict[str, Any]] = [
    {"a%s": "%d", "b": 1e7, "c": 0.5, "d": True, "e": dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "f": 1},
    {"a%s": "x", "b": float("nan"), "c": 1e10, "d": False, "e": dt.datetime(1, 1, 1, 1, 1, 1, 1000), "f": -1},
    {"a%s": "", "b": -0.0, "c": float("inf"), "d": False, "e": dt.date(2024, 2, 29), "f": Decimal("1.10")},
    {"a%s": "", "b": 0.001, "c": 1e-4, "d": False, "e": dt.time(1), "f": 0},
]


def test_missing_struct_field_is_written_as_null() -> None:
    given = [VALUES[0], {"b": 1.0}, {}]
    assert list(java_texts(ROW, given)) == [java_text(ROW, each) for each in given]


@pytest.mark.parametrize("null", [None, *(field.name for field in ROW.fields), "all"])
def test_structs_have_the_same_texts_with_nulls_anywhere(null: str | None) -> None:
    changed = [{k: None if null in (k, "all") else v for k, v in VALUES[0].items()}, *VALUES[1:]]
    assert list(java_texts(ROW, changed)) == [java_text(ROW, each) for each in changed]
