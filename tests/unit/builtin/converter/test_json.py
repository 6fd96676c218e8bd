"""JsonConverter: Kafka's envelopes, byte for byte, and back."""

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import ConfigError, RecordError, Schema, SchemaType
from fencepost.builtin.converter.json import JsonConverter
from fencepost.record import Repeated, Utf8Column
from fencepost.record.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL_NAME,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    decimal,
)
from fencepost.task.conversion.columns import values_to_bytes

ENVELOPES = JsonConverter({"converter.type": "value"})
PLAIN = JsonConverter({"schemas.enable": "false"})

NAMED = Schema(
    SchemaType.STRUCT,
    name="shop.Order",
    version=2,
    doc="An order.",
    fields=Schema.struct({"id": INT64, "note": STRING.optional(), "count": replace(INT32, default=1)}).fields,
)
LIST = Schema(SchemaType.ARRAY, value_schema=INT32)
BY_NAME = Schema(SchemaType.MAP, key_schema=STRING, value_schema=INT32)
BY_NUMBER = Schema(SchemaType.MAP, key_schema=INT32, value_schema=STRING)

# What Kafka's converter writes, member by member.
ENVELOPED: list[tuple[Schema | None, Any, str]] = [
    (None, {"a": 1}, '{"schema":null,"payload":{"a":1}}'),
    (STRING, "zwölf", '{"schema":{"type":"string","optional":false},"payload":"zwölf"}'),
    (STRING.optional(), None, '{"schema":{"type":"string","optional":true},"payload":null}'),
    (INT64, 7, '{"schema":{"type":"int64","optional":false},"payload":7}'),
    (FLOAT64, 1.5, '{"schema":{"type":"double","optional":false},"payload":1.5}'),
    (BOOLEAN, True, '{"schema":{"type":"boolean","optional":false},"payload":true}'),
    (BYTES, b"\x00\xff", '{"schema":{"type":"bytes","optional":false},"payload":"AP8="}'),
    (
        LIST,
        [1, 2],
        '{"schema":{"type":"array","items":{"type":"int32","optional":false},"optional":false},"payload":[1,2]}',
    ),
    (
        BY_NAME,
        {"a": 1},
        '{"schema":{"type":"map","keys":{"type":"string","optional":false},'
        '"values":{"type":"int32","optional":false},"optional":false},"payload":{"a":1}}',
    ),
    (
        BY_NUMBER,
        {1: "a"},
        '{"schema":{"type":"map","keys":{"type":"int32","optional":false},'
        '"values":{"type":"string","optional":false},"optional":false},"payload":[[1,"a"]]}',
    ),
    (
        NAMED,
        {"id": 5, "note": None, "count": 3},
        '{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"},'
        '{"type":"string","optional":true,"field":"note"},'
        '{"type":"int32","optional":false,"default":1,"field":"count"}],'
        '"optional":false,"name":"shop.Order","version":2,"doc":"An order."},'
        '"payload":{"id":5,"note":null,"count":3}}',
    ),
    (
        decimal(2),
        Decimal("1.56"),
        '{"schema":{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal","version":1,'
        '"parameters":{"scale":"2"}},"payload":"AJw="}',
    ),
    (
        DATE,
        dt.date(1970, 4, 11),
        '{"schema":{"type":"int32","optional":false,"name":"org.apache.kafka.connect.data.Date","version":1},'
        '"payload":100}',
    ),
    (
        TIME,
        dt.time(0, 1, 2, 3000),
        '{"schema":{"type":"int32","optional":false,"name":"org.apache.kafka.connect.data.Time","version":1},'
        '"payload":62003}',
    ),
    (
        TIMESTAMP,
        dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
        '{"schema":{"type":"int64","optional":false,"name":"org.apache.kafka.connect.data.Timestamp","version":1},'
        '"payload":1709208000000}',
    ),
]


@pytest.mark.parametrize(("schema", "value", "written"), ENVELOPED)
def test_json_envelopes_are_written_byte_for_byte_as_in_kafka(schema: Schema | None, value: Any, written: str) -> None:
    assert ENVELOPES.from_connect_data("t", schema, value) == written.encode()
    assert ENVELOPES.from_column(schema, [value]) == [written.encode()]


@pytest.mark.parametrize(("schema", "value", "written"), ENVELOPED)
def test_json_envelopes_are_read_back(schema: Schema | None, value: Any, written: str) -> None:
    assert ENVELOPES.to_connect_data("t", written.encode()) == (schema, value)


@pytest.mark.parametrize(("schema", "value", "written"), ENVELOPED)
def test_json_without_envelopes_is_the_bare_payload(schema: Schema | None, value: Any, written: str) -> None:
    payload = written.split('"payload":', 1)[1][:-1].encode()
    assert PLAIN.from_connect_data("t", schema, value) == payload
    assert PLAIN.from_column(schema, [value]) == [payload]


def test_json_converter_keeps_a_record_without_value_and_schema() -> None:
    for converter in (ENVELOPES, PLAIN):
        assert converter.from_connect_data("t", None, None) is None
        assert converter.from_column(None, [None, 1]) is None
        assert converter.to_connect_data("t", None) == (None, None)


def test_json_converter_writes_schemaless_values_of_all_types() -> None:
    value = {"b": b"\xff", "m": {1: "x"}, "l": [1, None, {"d": Decimal("1.10")}]}
    assert PLAIN.from_connect_data("t", None, value) == b'{"b":"/w==","m":[[1,"x"]],"l":[1,null,{"d":1.10}]}'


def test_json_converter_decodes_undecoded_text_columns() -> None:
    column = Utf8Column([b'say "hi"\n', "ö".encode(), b"\xff"])
    assert PLAIN.from_column(STRING, column) == [b'"say \\"hi\\"\\n"', '"ö"'.encode(), '"\ufffd"'.encode()]
    written = ENVELOPES.from_column(STRING, column)
    assert written == [ENVELOPES.from_connect_data("t", STRING, text) for text in column]


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (INT32, 1 << 31, "INT32"),
        (INT64, "1", "INT64"),
        (INT64, True, "INT64"),
        (STRING, 1, "STRING"),
        (STRING, None, "null value for field that is required"),
        (BOOLEAN, 1, "BOOLEAN"),
        (BYTES, "x", "bytes"),
        (NAMED, {"id": 1, "other": 2}, "other is not a valid field name"),
        (NAMED, {"note": "x"}, "id: Conversion error: null value"),
        (NAMED, [1], "STRUCT"),
        (decimal(1), Decimal("1.55"), "mismatching scale"),
        (DATE, dt.datetime(2024, 1, 1), "expected date"),
        (None, object(), "Converting to JSON failed"),
    ],
)
def test_json_value_that_does_not_fit_its_schema_is_a_record_error(
    schema: Schema | None, value: Any, text: str
) -> None:
    with pytest.raises(RecordError, match=text):
        ENVELOPES.from_connect_data("t", schema, value)
    assert ENVELOPES.from_column(schema, [value]) is None


def test_json_null_becomes_the_default_unless_configured_otherwise() -> None:
    schema = replace(INT32, default=9, is_optional=True)
    keeps = JsonConverter({"schemas.enable": "false", "replace.null.with.default": "false"})
    assert PLAIN.from_connect_data("t", schema, None) == b"9"
    assert keeps.from_connect_data("t", schema, None) == b"null"
    read = b'{"schema":{"type":"int32","optional":true,"default":9},"payload":null}'
    assert ENVELOPES.to_connect_data("t", read) == (schema, 9)
    assert JsonConverter({"replace.null.with.default": "false"}).to_connect_data("t", read) == (schema, None)


def test_json_schema_default_may_be_unhashable() -> None:
    schema = replace(LIST, default=[1])
    written = ENVELOPES.from_connect_data("t", schema, None)
    assert written is not None
    assert written.endswith(b'"default":[1]},"payload":[1]}')


def test_numeric_json_decimals_keep_all_their_digits() -> None:
    converter = JsonConverter({"decimal.format": "numeric"})
    value = Decimal("12345678901234567890123456789012.50")
    written = converter.from_connect_data("t", decimal(2), value)
    assert written is not None
    assert written.endswith(b'"payload":12345678901234567890123456789012.50}')
    assert ENVELOPES.to_connect_data("t", written) == (decimal(2), value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3))
def test_json_decimals_survive_a_round_trip(value: Decimal) -> None:
    schema = decimal(3)
    assert ENVELOPES.to_connect_data("t", ENVELOPES.from_connect_data("t", schema, value)) == (schema, value)


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), 0.1])
def test_numbers_that_json_lacks_survive_with_a_schema(number: float) -> None:
    written = ENVELOPES.from_connect_data("t", FLOAT64, number)
    assert ENVELOPES.to_connect_data("t", written) == (FLOAT64, number)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"17",
        b'{"schema":null}',
        b'{"schema":{},"payload":1}',
        b'{"schema":{"type":"int33"},"payload":1}',
        b'{"schema":{"type":"array"},"payload":[]}',
        b'{"schema":{"type":"struct","fields":[{"type":"int32"}]},"payload":{}}',
        b'{"schema":{"type":"int32"},"payload":null}',
        b'{"schema":{"type":"int32"},"payload":1.5}',
        b'{"schema":{"type":"bytes"},"payload":"%"}',
        b'{"schema":{"type":"struct","fields":[]},"payload":[]}',
    ],
)
def test_bytes_that_are_no_json_envelope_are_a_record_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        ENVELOPES.to_connect_data("t", data)


def test_json_converter_reports_all_wrong_settings_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        JsonConverter({"schemas.enable": "perhaps", "decimal.format": "HEX", "schemas.cache.size": "0"})
    assert len(caught.value.messages) == 3


VALUES: dict[str, tuple[Schema, st.SearchStrategy[Any]]] = {
    "text": (STRING, st.text(max_size=5) | st.sampled_from(["\x7f", ',"\x7f",', '"\\'])),
    "numbers": (INT32, st.integers(-(1 << 31), (1 << 31) - 1)),
    "nullable": (FLOAT64.optional(), st.none() | st.floats()),
    "flags": (BOOLEAN, st.booleans()),
    "structs": (
        NAMED,
        st.fixed_dictionaries({"id": st.integers(0, 9), "note": st.none() | st.text(max_size=3), "count": st.just(2)})
        | st.fixed_dictionaries({"note": st.none(), "id": st.integers(0, 9)}),
    ),
    "nested": (
        Schema.struct({"inner": Schema.struct({"x": FLOAT64}).optional(), "l": LIST}),
        st.fixed_dictionaries(
            {"inner": st.none() | st.fixed_dictionaries({"x": st.floats() | st.integers(0, 5)}), "l": st.just([1])}
        ),
    ),
}


def _holds_the_mark(column: list[Any]) -> bool:
    """DEL stands between the values that are written together, so a text that has one goes record by record."""
    parts = [part for value in column for part in (value.values() if isinstance(value, dict) else [value])]
    return any("\x7f" in part for part in parts if isinstance(part, str))


@pytest.mark.parametrize("kind", list(VALUES))
@given(data=st.data())
def test_json_columns_are_written_as_their_single_records(kind: str, data: st.DataObject) -> None:
    schema, values = VALUES[kind]
    column = data.draw(st.lists(values, max_size=6))
    for converter in (ENVELOPES, PLAIN):
        written = converter.from_column(schema, column)
        if written is not None:
            assert written == [converter.from_connect_data("t", schema, value) for value in column]
        if kind != "text" and not _holds_the_mark(column):
            assert written is not None


@given(st.lists(st.text(max_size=4) | st.dictionaries(st.text(max_size=2), st.integers()), max_size=5))
def test_schemaless_json_columns_are_written_as_their_single_records(column: list[Any]) -> None:
    for converter in (ENVELOPES, PLAIN):
        written = converter.from_column(None, column)
        assert written is None or written == [converter.from_connect_data("t", None, value) for value in column]


def test_repeated_json_value_is_encoded_once() -> None:
    assert list(values_to_bytes(PLAIN, INT32, Repeated(7, 3)) or ()) == [b"7"] * 3
    assert values_to_bytes(PLAIN, INT32, Repeated("7", 3)) is None


@pytest.mark.parametrize("wrong", [1 << 31, "1", None, True])
def test_json_column_with_a_wrong_value_is_refused_as_a_column(wrong: Any) -> None:
    assert PLAIN.from_column(INT32, [1, 2, wrong]) is None


def with_content(content: object, **more: str) -> JsonConverter:
    return JsonConverter({"schema.content": json.dumps(content), **more})


ORDER = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int64"},
        {"field": "note", "type": "string", "optional": True, "default": "none"},
        {"field": "total", "type": "bytes", "name": DECIMAL_NAME, "version": 1, "parameters": {"scale": "2"}},
    ],
}


def test_json_messages_are_read_with_the_configured_schema_content() -> None:
    converter = with_content(ORDER)
    schema, value = converter.to_connect_data("t", b'{"id":1,"total":12.30,"more":2}')
    assert schema is not None
    assert [field.name for field in schema.fields] == ["id", "note", "total"]
    assert value == {"id": 1, "note": "none", "total": Decimal("12.30")}
    assert with_content(ORDER, **{"replace.null.with.default": "false"}).to_connect_data(
        "t", b'{"id":1,"note":null,"total":"AQ=="}'
    ) == (schema, {"id": 1, "note": None, "total": Decimal("0.01")})
    assert converter.to_connect_data("t", None) == (None, None)
    for misfit in (b'{"id":"x"}', b"[]", b"null", b"", b"{"):
        with pytest.raises(RecordError):
            converter.to_connect_data("t", misfit)


def test_json_payload_column_is_read_as_its_single_payloads() -> None:
    converter = with_content(ORDER)
    messages = [b'{"id":1,"note":"x","total":"AQ=="}', b'{"id":2,"total":"AQI="}', b'{"total":"AA==","id":3}']
    column = converter.to_column(messages)
    assert column is not None
    assert [(column[0], value) for value in column[1]] == [converter.to_connect_data("t", each) for each in messages]
    assert converter.to_column([*messages, None]) is None  # a tombstone has no schema
    assert converter.to_column([*messages, b'{"id":"x"}']) is None


def test_schema_content_does_not_affect_writing_or_schemaless_reading() -> None:
    assert with_content(ORDER).from_connect_data("t", INT64, 1) == ENVELOPES.from_connect_data("t", INT64, 1)
    assert with_content(ORDER, **{"schemas.enable": "false"}).to_connect_data("t", b"5") == (None, 5)
    assert JsonConverter({"schema.content": ""}).to_connect_data("t", b'{"schema":null,"payload":5}') == (None, 5)


@pytest.mark.parametrize("content", ["x", "[]", "{}", '{"type":"nope"}', '{"type":"array"}', "[" * 3000])
def test_invalid_schema_content_is_refused_with_its_key(content: str) -> None:
    with pytest.raises(ConfigError, match=r"for configuration schema\.content: "):
        JsonConverter({"schema.content": content})


def test_null_json_header_is_read_and_written_as_in_kafka() -> None:
    own = JsonConverter({"converter.type": "header", "schemas.enable": "false"})
    assert own.to_connect_header("t", "h", b"null") == (None, None)
    assert own.from_connect_header("t", "h", None, None) is None
    enveloped = JsonConverter({"converter.type": "header"})
    assert enveloped.to_connect_header("t", "h", b'{"schema":null,"payload":null}') == (None, None)
    assert enveloped.from_connect_header("t", "h", None, None) is None
    with pytest.raises(RecordError, match="schema"):
        enveloped.to_connect_header("t", "h", b"null")
