"""Values as Avro and back: the bytes are those of fastavro, which is not ours, for the schema that is registered."""

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.registry.avro.converter import AvroCodec
from fencepost.builtin.converter.registry.avro.parsing import of_json
from fencepost.builtin.converter.registry.avro.schema import from_connect, to_connect
from fencepost.builtin.converter.registry.settings import AvroMapping
from fencepost.record.schema import BYTES, DATE, FLOAT64, INT32, INT64, STRING, TIME, TIMESTAMP, decimal
from support.avro_values import encoded as by_fastavro
from support.avro_values import read
from support.registry_schemas import SCHEMAS, STRUCTS
from support.schemas import values_of

PLAIN = AvroMapping()


def of_schema(schema: Schema) -> AvroCodec:
    return AvroCodec(of_json(from_connect(schema, PLAIN)), schema, PLAIN)


def decoded(codec: AvroCodec, data: bytes, start: int) -> Any:
    return codec.read(data, start)[1]


def decoded_all(codec: AvroCodec, column: list[bytes], start: int) -> list[Any]:
    return codec.read_all(column, start)[1]


def of_avro(avro: Any) -> AvroCodec:
    parsed = of_json(avro)
    return AvroCodec(parsed, to_connect(parsed, PLAIN), PLAIN)


FLIGHT = Schema.struct(
    {
        "id": INT64,
        "from": STRING,
        "delay": INT32.optional(),
        "at": TIMESTAMP,
        "on": DATE,
        "time": TIME,
        "price": decimal(2),
        "tags": Schema(SchemaType.ARRAY, value_schema=STRING),
        "seats": Schema(SchemaType.MAP, key_schema=STRING, value_schema=INT32),
        "load": FLOAT64,
        "raw": BYTES.optional(),
    },
    name="air.Flight",
)
ROW = {
    "id": -1,
    "from": "Zürich",
    "delay": None,
    "at": dt.datetime(2026, 11, 26, 12, 0, 0, 123000, tzinfo=dt.UTC),
    "on": dt.date(1969, 12, 31),
    "time": dt.time(23, 59, 59, 999000),
    "price": Decimal("-12.34"),
    "tags": ["a", ""],
    "seats": {"7A": 1},
    "load": 0.5,
    "raw": b"\x00",
}


def test_avro_bytes_equal_fastavros_for_the_registered_schema() -> None:
    avro = from_connect(FLIGHT, PLAIN)
    codec = of_schema(FLIGHT)
    assert codec.encode(ROW) == by_fastavro(avro, ROW)
    assert read(avro, codec.encode(ROW)) == ROW
    assert decoded(codec, b"\0\0\0\0\7" + codec.encode(ROW), 5) == ROW


@given(st.data(), SCHEMAS)
def test_value_survives_the_avro_round_trip(data: st.DataObject, schema: Schema) -> None:
    value = data.draw(values_of(schema))
    codec = of_schema(schema)
    assert decoded(codec, codec.encode(value), 0) == value


@given(st.data(), STRUCTS)
def test_avro_column_bytes_equal_those_of_single_values(data: st.DataObject, schema: Schema) -> None:
    column = data.draw(st.lists(values_of(schema), max_size=4))
    codec = of_schema(schema)
    written = codec.encode_all(column, b"lead!")
    assert written == [b"lead!" + codec.encode(value) for value in column]
    assert decoded_all(codec, written, 5) == column


def test_avro_column_with_an_invalid_value_is_refused() -> None:
    codec = of_schema(Schema.struct({"n": INT32}, name="N"))
    with pytest.raises(RecordError, match="n: Invalid type for INT32"):
        codec.encode_all([{"n": 1}, {"n": 1 << 31}], b"")


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (INT32, True, "INT32"),
        (INT32, 1.0, "INT32"),
        (Schema(SchemaType.INT8), 128, "INT8"),
        (STRING, None, "required"),
        (STRING, b"x", "STRING"),
        (STRING, "\ud800", "surrogates"),
        (FLOAT64, "1", "FLOAT64"),
        (BYTES, "x", "BYTES"),
        (Schema(SchemaType.FLOAT32), 1e39, "float|large|range"),
        (decimal(2), Decimal("0.001"), "scale"),
        (Schema.struct({"n": INT32}, name="N"), {"n": 1, "m": 2}, "m is not a valid field name"),
        (Schema.struct({"n": INT32}, name="N"), [1], "STRUCT"),
        (Schema(SchemaType.ARRAY, value_schema=INT32), "ab", "ARRAY"),
        (Schema(SchemaType.MAP, key_schema=STRING, value_schema=INT32), {1: 2}, "STRING"),
    ],
)
def test_value_that_does_not_fit_its_avro_schema_is_refused(schema: Schema, value: Any, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        of_schema(schema).encode(value)


def test_avro_null_becomes_the_default_unless_configured_otherwise() -> None:
    schema = Schema.struct({"a": replace(INT32, default=5), "b": replace(INT32.optional(), default=6)}, name="N")
    codec = of_schema(schema)
    assert decoded(codec, codec.encode({}), 0) == {"a": 5, "b": 6}
    keeps = AvroMapping({"ignore.default.for.nullables": "true"})
    codec = AvroCodec(of_json(from_connect(schema, keeps)), schema, keeps)
    assert decoded(codec, codec.encode({"a": 1, "b": None}), 0) == {"a": 1, "b": None}


UNION = [
    "null",
    "int",
    "long",
    {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]},
    {"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}]},
    {"type": "enum", "name": "E", "symbols": ["ON"]},
    "string",
]


@pytest.mark.parametrize(
    ("member", "value", "foreign"),
    [
        ("int", 3, None),
        ("long", 3, None),
        ("A", {"x": 1}, ("A", {"x": 1})),
        ("B", {"x": 1}, ("B", {"x": 1})),
        ("E", "ON", ("E", "ON")),
        ("string", "ON", ("string", "ON")),
    ],
)
def test_member_of_an_avro_union_survives_a_round_trip(member: str, value: Any, foreign: Any) -> None:
    codec = of_avro(UNION)
    found = decoded(codec, codec.encode({member: value}), 0)
    assert {name: item for name, item in found.items() if item is not None} == {member: value}
    if foreign is not None:
        assert codec.encode({member: value}) == by_fastavro(UNION, foreign)
    assert codec.encode(None) == by_fastavro(UNION, None)


@pytest.mark.parametrize("value", [{}, {"int": 1, "string": "x"}, {"other": 1}])
def test_avro_union_value_must_have_exactly_one_member(value: Any) -> None:
    with pytest.raises(RecordError, match="needs one of its fields"):
        of_avro(["int", "string"]).encode(value)


def test_column_of_avro_unions_is_not_encoded_as_plain_structs() -> None:
    codec = of_avro({"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int", "string"]}]})
    rows = [{"u": {"int": 1, "string": None}}, {"u": {"int": None, "string": "x"}}]
    assert decoded_all(codec, codec.encode_all(rows, b""), 0) == rows


def test_fixed_avro_decimal_is_padded_to_the_size_of_its_type() -> None:
    avro = {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    codec = of_avro(avro)
    assert codec.encode(Decimal("-1.00")) == by_fastavro(avro, Decimal("-1.00")) == b"\xff\xff\xff\x9c"
    assert decoded(codec, b"\xff\xff\xff\x9c", 0) == Decimal("-1.00")
    with pytest.raises(RecordError, match="does not fit 4 bytes"):
        codec.encode(Decimal("1e10"))


@given(st.integers(0, 200))
def test_truncated_avro_bytes_are_refused(kept: int) -> None:
    codec = of_schema(FLIGHT)
    whole = codec.encode(ROW)
    cut = whole[: kept % len(whole)]
    with pytest.raises(RecordError, match="does not fit its schema"):
        decoded_all(codec, [whole, cut, whole], 0)


@given(st.binary(max_size=40))
def test_arbitrary_avro_bytes_give_a_value_or_a_record_error(data: bytes) -> None:
    try:
        of_schema(FLIGHT).read(data, 0)
    except RecordError:
        pass


def test_avro_date_beyond_pythons_years_is_a_record_error() -> None:
    with pytest.raises(RecordError, match="does not fit its schema"):
        of_schema(DATE).read(by_fastavro("int", 10_000_000), 0)


def test_columns_with_scrubbed_avro_names_are_written() -> None:
    scrubs = AvroMapping({"scrub.invalid.names": "true"})
    schema = Schema.struct({"a-b": INT32}, name="N")
    codec = AvroCodec(of_json(json.loads(json.dumps(from_connect(schema, scrubs)))), schema, scrubs)
    assert codec.encode_all([{"a-b": 1}], b"") == [b"\x02"]
