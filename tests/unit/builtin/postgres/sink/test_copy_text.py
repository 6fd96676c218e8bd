"""The types of columns and the texts of values, for each schema that Postgres has a type for."""

import datetime as dt
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from fencepost.api import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    ArrowColumn,
    RecordError,
    Schema,
    SchemaType,
    decimal,
)
from fencepost.builtin.postgres.sink.text import column_type, copy_array, copy_column, copy_rows, schemaless_type
from fencepost.record import MomentColumn


def debezium(name: str, type_: SchemaType = SchemaType.INT64, **parameters: str) -> Schema:
    return Schema(type_, name=f"io.debezium.{name}", parameters=tuple(parameters.items()))


WKB = bytes.fromhex("0101000000000000000000f03f0000000000000040")
CASES = [
    (INT64, "bigint", -5, "-5"),
    (FLOAT64, "double precision", 1e22, "1e+22"),
    (FLOAT64, "double precision", float("-inf"), "-inf"),
    (BOOLEAN, "boolean", True, "t"),
    (STRING, "text", "a\tb\\c\nd\re", "a\\tb\\\\c\\nd\\re"),
    (STRING, "text", "\\N", "\\\\N"),
    (BYTES, "bytea", b"\x00\xff", "\\\\x00ff"),
    (decimal(2), "numeric", Decimal("-1.50"), "-1.50"),
    (decimal(2, 9), "numeric(9,2)", Decimal("0.01"), "0.01"),
    (DATE, "date", dt.date(987, 1, 2), "0987-01-02"),
    (DATE, "date", 0, "J2440588"),
    (TIME, "time", dt.time(1, 2, 3, 4000), "01:02:03.004000"),
    (TIMESTAMP, "timestamp", dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC), "2024-07-01 12:00:00+00:00"),
    (debezium("time.Date", SchemaType.INT32), "date", -1, "J2440587"),
    (debezium("time.MicroTime"), "time", 86_399_999_999, "23:59:59.999999"),
    (debezium("time.Timestamp"), "timestamp", -1, "J2440587 23:59:59.999000+00"),
    (debezium("time.MicroTimestamp"), "timestamp", 86_400_000_001, "J2440589 00:00:00.000001+00"),
    (debezium("time.MicroTimestamp"), "timestamp", 9_223_372_036_825_200_000, "infinity"),
    (debezium("time.Timestamp"), "timestamp", -9_223_372_036_832_400, "-infinity"),
    (debezium("time.NanoTimestamp"), "timestamp", -(2**63), "-infinity"),
    (debezium("time.Date", SchemaType.INT32), "date", -2_147_472_692, "infinity"),
    (debezium("time.NanoTimestamp"), "timestamp", 1_999, "J2440588 00:00:00.000001+00"),
    (debezium("time.ZonedTimestamp", SchemaType.STRING), "timestamptz", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
    (debezium("time.MicroDuration"), "interval", -5, "-5 microseconds"),
    (debezium("data.Json", SchemaType.STRING), "jsonb", '{"a": "\\n"}', '{"a": "\\\\n"}'),
    (debezium("data.Uuid", SchemaType.STRING), "uuid", "0b0e", "0b0e"),
    (debezium("data.Bits", SchemaType.BYTES, length="10"), "bit(10)", b"\x05\x02", "1000000101"),
    (debezium("data.VariableScaleDecimal", SchemaType.STRUCT), "numeric", {"scale": 3, "value": b"\xff"}, "-0.001"),
    (debezium("data.VariableScaleDecimal", SchemaType.STRUCT), "numeric", {"scale": -2, "value": b"\x01"}, "1E+2"),
    (
        debezium("data.geometry.Point", SchemaType.STRUCT), "geometry", {"wkb": WKB, "srid": 4326},
        "0101000020e6100000000000000000f03f0000000000000040",
    ),
    (Schema.array(STRING.optional()), "text[]", ['a"b', None, "NULL", ""], '{"a\\\\"b",NULL,"NULL",""}'),
    (Schema.array(Schema.array(INT32)), "integer[]", [[1, 2], [3, 4]], '{{"1","2"},{"3","4"}}'),
    (Schema.map(STRING, INT32), "jsonb", {"a": 1}, '{"a": 1}'),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "name", "value", "text"), CASES)
def test_value_of_a_schema_has_a_column_type_and_a_text(schema: Schema, name: str, value: Any, text: str) -> None:
    type_ = column_type(schema)
    assert (type_.name, copy_column(type_, [value])) == (name, [text])


def test_missing_value_is_a_null_and_not_the_text_of_one() -> None:
    assert copy_column(column_type(STRING), ["\\N", None, "a\nb"]) == ["\\\\N", "\\N", "a\\nb"]


@pytest.mark.parametrize(("schema", "value"), [(INT32, "5"), (STRING, 5), (BOOLEAN, 2), (BYTES, "text"), (DATE, "x")])
def test_value_of_another_type_is_an_error_of_the_record(schema: Schema, value: Any) -> None:
    with pytest.raises(RecordError):
        copy_column(column_type(schema), [value])


def test_timestamp_is_written_in_the_zone_with_its_difference_from_utc() -> None:
    type_ = column_type(TIMESTAMP, ZoneInfo("Europe/Berlin"))
    assert copy_column(type_, [dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)]) == ["2024-07-01 14:00:00+02:00"]


def test_text_depends_on_the_type_of_a_column_that_exists() -> None:
    assert copy_column(column_type(BOOLEAN, target="bit(1)"), [True]) == ["1"]
    hstore = column_type(Schema.map(STRING, STRING.optional()), target="hstore")
    assert copy_column(hstore, [{"a": '"', "b": None}]) == ['"a"=>"\\\\"",\\"b\\"=>NULL'.replace('\\"b\\"', '"b"')]


def test_values_without_a_schema_have_the_types_of_their_own() -> None:
    values = [1, "a", None, True, 1.5]
    assert copy_array(schemaless_type(values), values, "text").to_pylist() == [b"1", b"a", b"\\N", b"t", b"1.5"]
    with pytest.raises(RecordError, match="complex"):
        schemaless_type([1j])


@pytest.mark.parametrize(("schema", "name", "value", "text"), CASES)
def test_array_of_a_column_has_the_texts_of_its_values(schema: Schema, name: str, value: Any, text: str) -> None:
    expected = [text.encode(), b"\\N", text.encode()]
    assert copy_array(column_type(schema), [value, None, value], name).to_pylist() == expected


ODD_VALUES: list[tuple[Schema, Any]] = [
    (INT64, 2**63 - 1), (INT64, 2**70), (INT64, True), (STRING, "\ud800"), (STRING, "é\x00"), (STRING, ""),
    (FLOAT64, 1), (FLOAT64, float("nan")), (TIMESTAMP, dt.datetime(2024, 1, 1)),
    (TIMESTAMP, dt.datetime(2024, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))), (TIMESTAMP, -62_135_596_800_001),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), ODD_VALUES)
def test_array_of_odd_values_has_the_texts_of_each(schema: Schema, value: Any) -> None:
    type_ = column_type(schema)
    (text,) = copy_column(type_, [value])
    assert copy_array(type_, [value], type_.name).to_pylist() == [text.encode("utf-8", "surrogatepass")]


def test_doubles_in_a_column_of_text_are_written_as_python_prints_them() -> None:
    arrays = [copy_array(column_type(FLOAT64), [1e5, -0.0], target) for target in ("double precision", "text")]
    assert [each.to_pylist() for each in arrays] == [[b"100000", b"-0"], [b"100000.0", b"-0.0"]]


def test_arrow_columns_are_written_as_arrays() -> None:
    moments = MomentColumn.of_ms(pa.array([0, -1, None]))
    assert copy_array(column_type(TIMESTAMP), moments, "timestamp with time zone").to_pylist() == [
        b"1970-01-01 00:00:00.000+00", b"1969-12-31 23:59:59.999+00", b"\\N",
    ]  # fmt: skip
    assert copy_array(column_type(TIMESTAMP), moments, "text").to_pylist()[0] == b"1970-01-01 00:00:00+00:00"
    assert copy_array(column_type(INT32), ArrowColumn(pa.array([7], "int32")), "integer").to_pylist() == [b"7"]
    assert copy_array(column_type(BOOLEAN, target="bit(1)"), ArrowColumn(pa.array([True])), "bit(1)")[0].as_py() == b"1"


def test_rows_are_lines_of_fields_in_order() -> None:
    columns = [pa.array([b"1", b"2"], pa.binary()), pa.array([b"a", b"\\N"], pa.binary())]
    assert copy_rows(columns) == b"1\ta\n2\t\\N\n"
    assert copy_rows(columns[:1]) == b"1\n2\n"
