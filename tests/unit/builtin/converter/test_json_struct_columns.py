"""Flat structs in JSON that are read into Arrow columns, and values for which each message is read by itself."""

import json
from typing import Any

import pytest

from fencepost.api import BYTES, INT8, STRING, RecordError, Schema, SchemaType, StructColumn, decimal
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.json_encoding import EncodingOptions
from fencepost.builtin.converter.json_schema import schema_to_json
from fencepost.record.schema import BOOLEAN, DATE, FLOAT32, FLOAT64, INT64, TIMESTAMP

ROW = Schema.struct(
    {
        "id": INT64, "small": INT8, "name": STRING, "note": STRING.optional(), "ratio": FLOAT64, "half": FLOAT32,
        "is_new": BOOLEAN, "at": TIMESTAMP, "day": DATE, "price": decimal(2).optional(), "data": BYTES.optional(),
        "kind": Schema(SchemaType.STRING, is_optional=True, default="plain"),
    }
)  # fmt: skip
GOOD = {
    "id": 2**53 + 1, "small": -128, "name": "a\tb\\\né\x00", "note": None, "ratio": -0.0, "half": 0.1, "is_new": True,
    "at": 1_700_000_000_123, "day": None, "price": "AQ==", "data": "AP8=", "kind": "rare",
} | {"day": 19_000}  # fmt: skip
ODD = [
    "1", "1.0", "-0", "-0.0", "0.0", "1e400", "-1e400", "1e-400", "1e-5000", "0.1e-3000", "1e22",
    "0.1234567890123456789", "1.00000000000000000001", "9007199254740993", "9007199254740993.0", "128",
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "1" * 400, "253402300800000", "null",
    "true", '""', '"AQ=="', '"NaN"', r'"\u0000"', r'"\ud83d\ude00"', r'"\ud800"', "{}", "[1]", "NaN", "", None,
]  # fmt: skip
"""JSON in place of a good value; None: the field is missing."""
CONTENT = json.dumps(schema_to_json(ROW, EncodingOptions()))
PAYLOADS = JsonConverter({"schema.content": CONTENT})
KEEPS_NULLS = JsonConverter({"schema.content": CONTENT, "replace.null.with.default": "false"})
ENVELOPES = JsonConverter({})


def message(field: str = "", odd: str | None = None) -> bytes:
    members = {name: json.dumps(value) for name, value in GOOD.items()} | ({field: odd} if field else {})
    return ("{" + ",".join(f'"{name}":{text}' for name, text in members.items() if text is not None) + "}").encode()


def singly(converter: JsonConverter, messages: list[bytes]) -> list[Any] | None:
    try:
        return [converter.to_connect_data("t", each)[1] for each in messages]
    except RecordError:
        return None


def test_flat_structs_become_arrow_columns_with_the_values_of_single_messages() -> None:
    messages = [message()] * 64
    found = PAYLOADS.to_column(messages)
    assert found is not None
    assert isinstance(found[1], StructColumn)
    assert repr(list(found[1])) == repr(singly(PAYLOADS, messages))
    wrapped = [b'{"schema":' + CONTENT.encode() + b',"payload":' + each + b"}" for each in messages]
    of_envelopes = ENVELOPES.to_column(wrapped)
    assert of_envelopes is not None
    assert (of_envelopes[0], repr(list(of_envelopes[1]))) == (ROW, repr(list(found[1])))


@pytest.mark.parametrize("converter", [PAYLOADS, KEEPS_NULLS], ids=["defaults", "nulls"])
@pytest.mark.parametrize("field", [field.name for field in ROW.fields])
def test_odd_value_among_structs_is_read_as_in_a_single_message(field: str, converter: JsonConverter) -> None:
    good = [message()] * 63
    for odd in ODD:
        messages = [*good, message(field, odd)]
        found = converter.to_column(messages)
        if found is not None:
            assert repr(list(found[1])) == repr(singly(converter, messages)), odd


def test_structs_with_members_in_another_order_or_unknown_ones_are_read() -> None:
    other = message()[:-1] + b',"more":[1.5]}'
    turned = json.dumps(dict(reversed(json.loads(message()).items()))).encode()
    messages = [*[message()] * 62, other, turned]
    found = PAYLOADS.to_column(messages)
    assert found is not None
    assert repr(list(found[1])) == repr(singly(PAYLOADS, messages))
