"""The converters other than JSON."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from fencepost.api import ConfigError, Converter, RecordError, Schema, SchemaType
from fencepost.builtin.converter.plain import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    SimpleHeaderConverter,
    StringConverter,
)
from fencepost.record import Repeated, Utf8Column
from fencepost.record.schema import BYTES, INT8, INT32, INT64, STRING
from fencepost.task.conversion.columns import values_to_bytes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("zwölf", "zwölf"),
        (None, None),
        (7, "7"),
        (True, "true"),
        (1.5, "1.5"),
        ({"a": 1, "b": [True, None]}, "{a=1, b=[true, null]}"),
    ],
)
def test_string_converter_writes_values_as_java_prints_them(value: Any, text: str | None) -> None:
    assert StringConverter().from_connect_data("t", None, value) == (None if text is None else text.encode())


def test_string_converter_writes_a_struct_as_java_prints_it() -> None:
    schema = Schema.struct({"a": INT64, "b": STRING.optional(), "c": STRING})
    assert StringConverter().from_connect_data("t", schema, {"c": "x", "a": 1}) == b"Struct{a=1,c=x}"


def test_string_converter_passes_text_columns_untouched() -> None:
    raw = [b"a", "\u00e4".encode()]
    assert StringConverter().from_column(STRING, Utf8Column(raw)) is raw
    assert StringConverter().from_column(STRING, ["a", "ö"]) == [b"a", "ö".encode()]
    assert StringConverter().from_column(INT64, range(3)) == [b"0", b"1", b"2"]
    assert StringConverter().from_column(STRING, ["a", None]) is None
    assert list(values_to_bytes(StringConverter(), INT32, Repeated(7, 3)) or ()) == [b"7"] * 3


def test_string_converter_uses_the_configured_character_set() -> None:
    converter = StringConverter({"converter.encoding": "ISO-8859-1"})
    assert converter.from_connect_data("t", STRING, "ö€") == b"\xf6?"
    assert converter.from_column(STRING, Utf8Column([b"a"])) is None
    assert converter.to_connect_data("t", b"\xf6") == (STRING.optional(), "ö")


def test_string_converter_refuses_an_unknown_character_set() -> None:
    with pytest.raises(ConfigError, match=r"UTF-99 for configuration converter\.encoding"):
        StringConverter({"converter.encoding": "UTF-99"})


def test_string_converter_refuses_bytes() -> None:
    with pytest.raises(RecordError, match="ByteArrayConverter"):
        StringConverter().from_connect_data("t", BYTES, b"x")


def test_byte_array_converter_passes_bytes_and_refuses_other_values() -> None:
    converter = ByteArrayConverter()
    column = [b"a", None]
    assert converter.from_column(BYTES, column) is column
    assert converter.from_column(None, [b"a", "b"]) is None
    assert converter.from_connect_data("t", None, bytearray(b"x")) == b"x"
    assert converter.to_connect_data("t", b"x") == (BYTES.optional(), b"x")
    with pytest.raises(RecordError, match="Invalid schema type for ByteArrayConverter: STRING"):
        converter.from_connect_data("t", STRING, "x")
    with pytest.raises(RecordError, match="not compatible with objects of type str"):
        converter.from_connect_data("t", None, "x")


@pytest.mark.parametrize(
    ("converter", "value", "data"),
    [
        (ShortConverter(), -2, b"\xff\xfe"),
        (IntegerConverter(), 258, b"\x00\x00\x01\x02"),
        (LongConverter(), 1, b"\x00" * 7 + b"\x01"),
        (FloatConverter(), 1.5, b"\x3f\xc0\x00\x00"),
        (DoubleConverter(), -2.0, b"\xc0" + b"\x00" * 7),
        (BooleanConverter(), True, b"\x01"),
    ],
)
def test_number_converters_use_big_endian_bytes(converter: Converter, value: Any, data: bytes) -> None:
    assert converter.from_connect_data("t", None, value) == data
    assert converter.to_connect_data("t", data)[1] == value
    assert converter.from_connect_data("t", None, None) is None
    with pytest.raises(RecordError, match="Size of data"):
        converter.to_connect_data("t", data + b"\x00")
    with pytest.raises(RecordError):
        converter.from_connect_data("t", STRING, value)
    with pytest.raises(RecordError):
        converter.from_connect_data("t", None, "text")


def test_number_converters_refuse_a_number_out_of_range() -> None:
    with pytest.raises(RecordError, match="INT16"):
        ShortConverter().from_connect_data("t", None, 1 << 15)
    with pytest.raises(RecordError):
        LongConverter().from_connect_data("t", None, True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain text", "plain text"),
        (7, "7"),
        (False, "false"),
        (b"\xff", "/w=="),
        ([1, "a"], '[1,"a"]'),
        ({"k": [None, True]}, '{"k":[null,true]}'),
        (dt.date(2024, 2, 29), "2024-02-29"),
        (dt.datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=dt.UTC), "2024-02-29T01:02:03.004Z"),
    ],
)
def test_simple_header_converter_writes_values_as_literals(value: Any, text: str) -> None:
    assert SimpleHeaderConverter().from_connect_header("t", "h", None, value) == text.encode()


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("plain text", "plain text", SchemaType.STRING),
        ("", "", SchemaType.STRING),
        ("7", 7, SchemaType.INT8),
        ("70000", 70000, SchemaType.INT32),
        ("-1.5", -1.5, SchemaType.FLOAT32),
        ("1e39", 1e39, SchemaType.FLOAT64),
        ("99999999999999999999", Decimal("99999999999999999999"), SchemaType.BYTES),
        (" 5 ", 5, SchemaType.INT8),
        ("[1, 300]", [1, 300], SchemaType.ARRAY),
        ('["a, b", null]', '["a, b", null]', SchemaType.STRING),
        ('["a, \\"b\\" "]', ['a, "b" '], SchemaType.ARRAY),
        ("5,6", "5,6", SchemaType.STRING),
        ("[1] and more", "[1] and more", SchemaType.STRING),
        ("1e999999999", "1e999999999", SchemaType.STRING),
        ("[" * 2000, "[" * 2000, SchemaType.STRING),
        ("true", True, SchemaType.BOOLEAN),
        ("2024-02-29", dt.date(2024, 2, 29), SchemaType.INT32),
        ("2024-02-29T01:02:03.004Z", dt.datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=dt.UTC), SchemaType.INT64),
        ("1.2.3", "1.2.3", SchemaType.STRING),
        ("[broken", "[broken", SchemaType.STRING),
    ],
)
def test_simple_header_converter_reads_literals_with_their_types(text: str, value: Any, kind: SchemaType) -> None:
    schema, found = SimpleHeaderConverter().to_connect_header("t", "h", text.encode())
    assert found == value
    assert schema is not None
    assert schema.type is kind


def test_simple_header_converter_passes_null_headers() -> None:
    converter = SimpleHeaderConverter()
    assert converter.from_connect_header("t", "h", INT32, None) is None
    assert converter.to_connect_header("t", "h", None) == (None, None)
    numbers = Schema.map(STRING, Schema.array(INT8))
    assert converter.to_connect_header("t", "h", b'{"a":[1]}') == (numbers, {"a": [1]})
