"""Schemas in a line: by hand, from a dataclass, from Arrow."""

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pyarrow as pa
import pytest

from fencepost.api import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaError,
    SchemaType,
    decimal,
)
from fencepost.record.type_table import rows_of_arrow


@dataclass
class Place:
    city: str
    zip: int | None


@dataclass
class Order:
    number: int
    total: Annotated[Decimal, decimal(2)]
    tags: list[str]
    counts: dict[str, int | None]
    place: Place | None
    at: dt.datetime
    day: dt.date
    time: dt.time
    data: bytes
    share: float
    is_paid: bool


def test_a_dataclass_has_the_schema_of_its_annotations() -> None:
    place = Schema.struct({"city": STRING, "zip": INT64.optional()}, name="Place")
    assert Schema.of_dataclass(Order, name="com.example.Order") == Schema.struct(
        {
            "number": INT64,
            "total": decimal(2),
            "tags": Schema.array(STRING),
            "counts": Schema.map(STRING, INT64.optional()),
            "place": place.optional(),
            "at": TIMESTAMP,
            "day": DATE,
            "time": TIME,
            "data": BYTES,
            "share": FLOAT64,
            "is_paid": BOOLEAN,
        },
        name="com.example.Order",
    )


@pytest.mark.parametrize("annotation", [Decimal, complex, int | str, list, set[str], Any])
def test_dataclass_field_without_a_schema_is_named(annotation: Any) -> None:
    made = dataclass(type("Wrong", (), {"__annotations__": {"total": annotation}}))
    with pytest.raises(SchemaError, match=r"Wrong\.total: .*Annotated\[Decimal, decimal\(2\)\]"):
        Schema.of_dataclass(made)


def test_a_class_that_is_no_dataclass_is_refused() -> None:
    with pytest.raises(SchemaError, match="is not a dataclass"):
        Schema.of_dataclass(str)


def test_arrow_columns_have_the_schemas_of_their_types() -> None:
    columns = pa.schema(
        [
            pa.field("a", pa.int8(), nullable=False),
            pa.field("b", pa.uint8()),
            pa.field("c", pa.uint32()),
            pa.field("d", pa.float32()),
            pa.field("e", pa.large_string()),
            pa.field("f", pa.timestamp("ns", "Europe/Vienna")),
            pa.field("g", pa.time64("us")),
            pa.field("h", pa.decimal128(10, 3)),
            pa.field("i", pa.list_(pa.field("item", pa.int16(), nullable=False))),
            pa.field("j", pa.map_(pa.string(), pa.int32())),
            pa.field("k", pa.struct([pa.field("x", pa.date32(), nullable=False)])),
            pa.field("l", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    assert Schema.of_arrow(columns, name="row") == Schema.struct(
        {
            "a": INT8,
            "b": INT16.optional(),
            "c": INT64.optional(),
            "d": FLOAT32.optional(),
            "e": STRING.optional(),
            "f": TIMESTAMP.optional(),
            "g": TIME.optional(),
            "h": decimal(3).optional(),
            "i": Schema.array(INT16).optional(),
            "j": Schema.map(STRING, INT32.optional()).optional(),
            "k": Schema.struct({"x": DATE}).optional(),
            "l": STRING.optional(),
        },
        name="row",
    )


@pytest.mark.parametrize("kind", [pa.uint64(), pa.duration("s"), pa.null()])
def test_arrow_type_without_a_counterpart_is_named(kind: pa.DataType) -> None:
    inner = pa.struct([pa.field("wrong", kind)])
    with pytest.raises(SchemaError, match=r"column row\.wrong: Kafka Connect has no type for Arrow's"):
        Schema.of_arrow(pa.schema([pa.field("row", inner)]))


def test_rows_of_arrow_fit_their_schema() -> None:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
    table = pa.table(
        {
            "at": pa.array([at], pa.timestamp("ns")),
            "inner": pa.array([{"times": [at]}], pa.struct([("times", pa.list_(pa.timestamp("us")))])),
            "counts": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    cut = at.replace(microsecond=678000)
    assert rows_of_arrow(table) == [{"at": cut, "inner": {"times": [cut]}, "counts": {"a": 1}}]
    assert rows_of_arrow(table.to_batches()[0]) == rows_of_arrow(table)


def test_array_and_map_schemas_are_built_in_one_call() -> None:
    schema = Schema.map(STRING, Schema.array(INT64))
    assert (schema.type, schema.key_schema) == (SchemaType.MAP, STRING)
    assert schema.value_schema == Schema(SchemaType.ARRAY, value_schema=INT64)
