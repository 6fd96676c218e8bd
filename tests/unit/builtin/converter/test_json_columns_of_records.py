"""JsonConverter: a whole column becomes what its values become one by one, and back."""

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.json_encoding import EncodingOptions
from fencepost.builtin.converter.json_schema import schema_to_json
from fencepost.record import ArrowColumn, BinaryColumn, Repeated, StructColumn
from fencepost.record.schema import BOOLEAN, FLOAT64, INT32, INT64, STRING, TIMESTAMP, decimal
from support.schemas import schemas, values_of

ENVELOPES = JsonConverter({})
KEEPS_NULLS = JsonConverter({"replace.null.with.default": "false", "decimal.format": "NUMERIC"})
PLAIN = JsonConverter({"schemas.enable": "false"})

ROW = Schema.struct(
    {"id": INT64, "text": STRING.optional(), "ratio": FLOAT64, "at": TIMESTAMP.optional(), "price": decimal(2)}
)
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3),
    max_leaves=8,
)


def one_by_one(converter: JsonConverter, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None] | None:
    try:
        return [converter.from_connect_data("t", schema, value) for value in values]
    except RecordError:
        return None


def read_one_by_one(converter: JsonConverter, messages: Sequence[bytes | None]) -> list[Any] | None:
    try:
        return [converter.to_connect_data("t", each) for each in messages]
    except RecordError:
        return None


@st.composite
def columns(draw: st.DrawFn) -> tuple[Schema, list[Any]]:
    schema = draw(schemas())
    return schema, draw(st.lists(values_of(schema), max_size=4))


@given(columns(), st.sampled_from([ENVELOPES, KEEPS_NULLS, PLAIN]))
def test_json_column_is_written_as_its_single_values(
    column: tuple[Schema, list[Any]], converter: JsonConverter
) -> None:
    schema, values = column
    written = converter.from_column(schema, values)
    assert written is None or list(written) == one_by_one(converter, schema, values)


ARROW = {
    "n": (INT64, pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "small": (INT32, pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    "is": (BOOLEAN, pa.bool_(), st.booleans()),
    "x": (FLOAT64, pa.float64(), st.floats()),
    "price": (
        decimal(2),
        pa.decimal128(18, 2),
        st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    ),
    "long": (decimal(0), pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
    "text": (STRING, pa.string(), st.text(st.characters(exclude_categories=("Cs",)))),
    "other": (STRING, pa.int32(), st.integers(0, 9)),  # of a type that its schema does not have
}


@st.composite
def arrow_rows(draw: st.DrawFn) -> tuple[Schema, StructColumn]:
    count = draw(st.integers(1, 4))
    fields, found = {}, {}
    for name in draw(st.lists(st.sampled_from(list(ARROW)), unique=True, min_size=1)):
        schema, kind, values = ARROW[name]
        fields[name] = draw(st.sampled_from([schema, schema.optional()]))
        if draw(st.booleans()) and name == "n":
            fields[name] = replace(fields[name], default=7)
        drawn = draw(st.lists(st.none() | values, min_size=count, max_size=count))
        found[name] = ArrowColumn(pa.array([None, *drawn], kind)[1:])  # a part of an array
    fields["constant"] = STRING
    return Schema.struct(fields), StructColumn({**found, "constant": Repeated("c", count)}, count)


@given(arrow_rows(), st.sampled_from([ENVELOPES, KEEPS_NULLS, PLAIN]))
def test_arrow_columns_are_written_as_their_single_values(
    given: tuple[Schema, StructColumn], converter: JsonConverter
) -> None:
    schema, rows = given
    for one in (schema, None):
        written = converter.from_column(one, rows)
        assert written is None or list(written) == one_by_one(converter, one, list(rows))


def test_arrow_columns_of_plain_values_become_an_arrow_column() -> None:
    schema = Schema.struct({"n": INT64, "text": STRING.optional(), "x": FLOAT64, "is": BOOLEAN})
    values = {"n": [1, -2], "text": ['a"\\\n', None], "x": [1.0, 1e300], "is": [True, False]}
    rows = StructColumn({name: ArrowColumn(pa.array(column)) for name, column in values.items()}, 2)
    written = PLAIN.from_column(schema, rows)
    assert isinstance(written, BinaryColumn)
    assert [orjson.loads(each) for each in written] == list(rows)


@given(columns(), JSON)
def test_json_column_with_a_wrong_value_is_written_as_its_single_values(
    column: tuple[Schema, list[Any]], misfit: Any
) -> None:
    schema, values = column
    written = ENVELOPES.from_column(schema, [*values, misfit])
    expected = one_by_one(ENVELOPES, schema, [*values, misfit])
    assert written is None or list(written) == expected


@given(columns(), st.sampled_from([ENVELOPES, KEEPS_NULLS]))
def test_json_column_is_read_as_its_single_messages(column: tuple[Schema, list[Any]], converter: JsonConverter) -> None:
    schema, values = column
    messages = one_by_one(converter, schema, values)
    assert messages is not None
    found = converter.to_column(messages)
    if found is not None:
        assert [(found[0], value) for value in found[1]] == read_one_by_one(converter, messages)


@st.composite
def messages_with_a_misfit(draw: st.DrawFn) -> list[bytes]:
    schema, values = draw(columns())
    payloads = [_payload(schema, value) for value in values]
    payloads.insert(draw(st.integers(0, len(payloads))), json.dumps(draw(JSON)).encode())
    written = orjson.dumps(schema_to_json(schema, EncodingOptions()))
    return [b'{"schema":' + written + b',"payload":' + payload + b"}" for payload in payloads]


def _payload(schema: Schema, value: Any) -> bytes:
    written = PLAIN.from_connect_data("t", schema, value)
    assert written is not None
    return written


@given(messages_with_a_misfit())
def test_json_column_with_a_wrong_payload_is_read_as_its_single_messages(messages: list[bytes]) -> None:
    found, expected = ENVELOPES.to_column(messages), read_one_by_one(ENVELOPES, messages)
    assert found is None or [(found[0], value) for value in found[1]] == expected


ROWS: list[dict[str, Any]] = [
    {"id": n, "text": None if n % 3 else f"n{n}", "ratio": n / 7, "at": MOMENT, "price": Decimal(n).scaleb(-2)}
    for n in range(50)
]


def test_json_rows_are_written_and_read_as_columns() -> None:
    written = ENVELOPES.from_column(ROW, ROWS)
    assert written == [ENVELOPES.from_connect_data("t", ROW, row) for row in ROWS]
    assert ENVELOPES.to_column(written) == (ROW, ROWS)
    assert ENVELOPES.to_column(BinaryColumn(pa.array(written))) == (ROW, ROWS)


def test_json_converter_does_not_change_its_input_values() -> None:
    row = dict(ROWS[1])
    ENVELOPES.from_column(ROW, [row])
    assert row == ROWS[1]


@pytest.mark.parametrize(
    "other",
    [
        b'{"schema":{"type":"int64","optional":false},"payload":1}',  # another schema
        b'{"payload":1,"schema":{"type":"int32","optional":false}}',  # another order
        b'{"schema":{"type":"int32","optional":false},"payload":1,"more":2}',
        b'{"schema":{"type":"int32","optional":false},"payload":1,2}',
        b'{"schema":{"type":"int32","optional":false},"payload":}',
        b'{"schema":{"type":"int32","optional":false},"payload":1} ',
        b'{"schema":{"type":"int32","optional":false},"payload":[1}',
        b'{"schema":{"type":"int32","optional":false},"payload":"1"}',
        None,
        b"",
        b"{}",
    ],
)
def test_json_column_with_a_message_of_another_form_is_not_read_as_a_column(other: bytes | None) -> None:
    written = ENVELOPES.from_connect_data("t", INT32, 7)
    assert ENVELOPES.to_column([written, other, written]) is None
    assert ENVELOPES.to_column([written, written]) == (INT32, [7, 7])


def test_malformed_json_payloads_that_balance_each_other_are_not_accepted() -> None:
    prefix = b'{"schema":{"type":"array","items":{"type":"int32","optional":false},"optional":false},"payload":'
    halves = [b"[[1]", b"[2]]", b"[3],[4]", rb'[5],"\u007f",[6]']
    assert ENVELOPES.to_column([prefix + half + b"}" for half in halves]) is None


def test_json_envelopes_with_spaces_are_read_as_columns() -> None:
    message = rb' { "schema" : {"type": "string", "optional": true, "default": ",\"payload\":"} , "payload" : "x"}'
    assert ENVELOPES.to_column([message, message]) == (replace(STRING.optional(), default=',"payload":'), ["x", "x"])


def test_json_without_envelopes_is_read_as_a_column() -> None:
    messages = [b'{"a":1}', None, b"12345678901234567890123", b'"x"', b"0.1"]
    assert PLAIN.to_column(messages) == (None, [{"a": 1}, None, 12345678901234567890123, "x", 0.1])
    assert PLAIN.to_column([b"1", b"1,2"]) is None
    assert PLAIN.to_column([]) == (None, [])


def test_numeric_decimal_in_a_json_column_keeps_its_digits() -> None:
    message = ENVELOPES.from_connect_data("t", decimal(20), Decimal(1))
    assert message is not None
    number = message[: message.rindex(b":")] + b":0.12345678901234567890}"
    assert ENVELOPES.to_column([number]) is None
    assert ENVELOPES.to_connect_data("t", number) == (decimal(20), Decimal("0.12345678901234567890"))


def test_too_deep_json_schema_is_not_read_as_a_column() -> None:
    deep = b'{"type":"array","optional":false,"items":' * 3000 + b'{"type":"bytes"}' + b"}" * 3000
    message = b'{"schema":' + deep + b',"payload":[]}'
    assert ENVELOPES.to_column([message]) is None
    with pytest.raises(RecordError):
        ENVELOPES.to_connect_data("t", message)
