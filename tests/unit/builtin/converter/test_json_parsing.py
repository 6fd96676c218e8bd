"""Numbers in JSON are not changed on their way from topic to topic."""

import base64
import functools
import json
from decimal import Decimal

import pytest

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter import json_decoding
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.json_decoding import parsed, parsed_with_decimals
from fencepost.record.schema import FLOAT64, INT64, decimal

PLAIN = JsonConverter({"schemas.enable": "false"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("-9999999999999999999", -9999999999999999999),
        ("18446744073709551616", 1 << 64),
        ("9223372036854775807", (1 << 63) - 1),
        ("0.12345678901234567890", Decimal("0.12345678901234567890")),
        ("9007199254740993.5", Decimal("9007199254740993.5")),
        ("9007199254740993e0", Decimal("9007199254740993")),
        ("-9007199254740993E+0", Decimal("-9007199254740993")),
        ("1E-400", Decimal("1E-400")),
        ("0.30000000000000004", 0.30000000000000004),
        ("1e300", 1e300),
        ("1.5", 1.5),
    ],
)
def test_json_number_stays_exact(text: str, value: object) -> None:
    digits = "7" * 5_000
    for data in (
        f'{{"n":{text}}}',  # alone: neighbours make the parser look twice at all numbers
        f'{{"n":{text},"s":"{digits}"}}',
        f'[{{"s":"4111111111111111.5.5.1"}},{{"n":{text}}}]',
    ):
        _, found = PLAIN.to_connect_data("t", data.encode())
        inner = found[1] if isinstance(found, list) else found
        assert inner["n"] == value
        assert type(inner["n"]) is type(value)
        written = PLAIN.from_connect_data("t", None, found)
        assert written is not None
        assert PLAIN.to_connect_data("t", written) == (None, found)


NO_JSON = [
    b'{"n":1e999}', b'{"n":007}', b"\xef\xbb\xbf{}", b"", b'{"n":"\\ud800"}', b"{} {}", b'{"n":NaN}', b'"\xff"',
    b'{"n":1' + b"0" * 400 + b"}", b'{"n":1e-999999999}', b'{"n":-1.5e-99999999999999999999}',
    b'{"n":12345678901234567890e-999999999}',
]  # fmt: skip


@pytest.mark.parametrize("data", NO_JSON)
def test_json_number_that_cannot_be_exact_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        PLAIN.to_connect_data("t", data)


def test_schemaless_json_column_keeps_numbers_exact() -> None:
    values = [{"n": 1 << 70}, {"n": 1}]
    written = PLAIN.from_column(None, values) or [PLAIN.from_connect_data("t", None, value) for value in values]
    assert list(written) == [b'{"n":1180591620717411303424}', b'{"n":1}']


_DECIMAL = (
    b'{"schema":{"type":"struct","fields":[{"field":"d","type":"bytes","version":1,"parameters":{"scale":"%b"},'
    b'"name":"org.apache.kafka.connect.data.Decimal"},{"field":"i","type":"int64"}]},"payload":{"d":%b,"i":%b}}'
)


@pytest.mark.parametrize(
    ("scale", "decimal", "integer"),
    [
        (b"2", b"1e999999999", b"1"),
        (b"2", b"1e-999999999", b"1"),
        (b"999999999", b"1", b"1"),
        (b"2", b"1", b"1e999999999"),
        (b"2", b"1", b"-1e999999999"),
    ],
)
def test_json_decimal_with_a_billion_digits_is_refused(scale: bytes, decimal: bytes, integer: bytes) -> None:
    """Otherwise the converter computes for days and blocks all tasks of its process."""
    with pytest.raises(RecordError):
        JsonConverter({}).to_connect_data("t", _DECIMAL % (scale, decimal, integer))


def test_json_decimal_keeps_large_and_exact_values() -> None:
    for text, scale, digits in (
        (b"0e999999999", b"2", 0),
        (b"1e300", b"2", 10**302),
        (b"12345678901234567890.12", b"2", 1234567890123456789012),
    ):
        _, found = JsonConverter({}).to_connect_data("t", _DECIMAL % (scale, text, b"9.0"))
        assert (found["d"].scaleb(2) if digits < 10**28 else int(found["d"]) * 100, found["i"]) == (digits, 9)


_NAMED = b"org.apache.kafka.connect.data.Decimal"
_OF_DECIMAL = b'{"schema":{"type":"bytes","name":"' + _NAMED + b'","parameters":{"scale":"%b"}},"payload":%b}'


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema":null,"payload":{"n":1e3000000,"of":"' + _NAMED + b'"}}',
        b'{"schema":null,"payload":{"n":1e-3000000,"of":"' + _NAMED + b'"}}',
        b'{"schema":null,"payload":{"n":1e99999999999999999999,"of":"' + _NAMED + b'"}}',
        b'{"schema":null,"payload":' + b"[" * 1_010 + b"12345678901234567890.5" + b"]" * 1_010 + b"}",
        _OF_DECIMAL % (b"0", b'"' + base64.b64encode(b"\x01" * 2_000) + b'"'),
        _OF_DECIMAL % (b"99999999999999999999", b'"AQ=="'),
        _OF_DECIMAL % (b"-999999999", b'"AQ=="'),
        _OF_DECIMAL % (b"2", b'"\xc3\xa9"'),
        b'{"schema":{"type":"double","doc":"' + _NAMED + b'"},"payload":1e400}',
        b'{"schema":{"type":"float","doc":"' + _NAMED + b'"},"payload":1e400}',
        b'{"schema":{"type":"double","doc":"' + _NAMED + b'"},"payload":1' + b"0" * 400 + b"}",
        b'{"schema":{"type":"string","doc":"\\ud800' + _NAMED + b'"},"payload":"a"}',
    ],
)  # fmt: skip
def test_unreadable_json_message_is_a_record_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        JsonConverter({}).to_connect_data("t", data)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (None, {"n": Decimal("1e3000000")}),
        (None, {"n": Decimal("1e-3000000")}),
        (None, {"n": 10**5_000}),
        (None, functools.reduce(lambda inner, _: [inner], range(2_000), 1)),
        (FLOAT64, 10**400),
        (INT64, 10**5_000),
        (decimal(0), 10**5_000),
    ],
    ids=["large", "tiny", "digits", "deep", "double", "long", "decimal"],
)
def test_unwritable_json_value_is_a_record_error(schema: Schema | None, value: object) -> None:
    with pytest.raises(RecordError):
        JsonConverter({}).from_connect_data("t", schema, value)


def test_json_number_with_ten_thousand_digits_is_written_back() -> None:
    text = "1." + "3" * 10_000
    _, found = PLAIN.to_connect_data("t", f'{{"n":{text}}}'.encode())
    assert PLAIN.from_connect_data("t", None, found) == f'{{"n":{text}}}'.encode()


@pytest.mark.parametrize(
    "text",
    [b'"\\ud800"', b'["a\\uDC00b"]', b'{"\\ud83d":1}', b"NaN", b"[-Infinity]", b'"\xed\xa0\x80"', b"\xef\xbb\xbf1"],
)
def test_both_json_parsers_refuse_invalid_json(text: bytes) -> None:
    for parse in (parsed, parsed_with_decimals):
        with pytest.raises(ValueError):
            parse(text)


def test_json_surrogate_pair_is_read_as_one_character() -> None:
    assert parsed(b'"\\ud83d\\ude00"') == parsed_with_decimals(b'"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize(
    "text",
    [
        *[
            '"article-100"',
            '"0e-4123-1e-400-a"',
            '"1.2.3.4.5.6.7.8.9.10.11"',
            '"12345678901234567890.5"',
            '[1e-30,"1e-400"]',
        ],
        *[
            "0.14285714285714285",
            "1e-400",
            "[0.1,1e-400]",
            "1234567890.12345678901",
            '{"a":0.30000000000000004}',
            "1e+22",
        ],
    ],
)
def test_json_number_becomes_a_decimal_only_if_a_double_would_round_it(text: str) -> None:
    def exact(number: str) -> float | Decimal:
        return float(number) if Decimal(repr(float(number))) == Decimal(number) else Decimal(number)

    found = parsed(text.encode())
    assert repr(found) == repr(json.loads(text, parse_float=exact))


def test_json_texts_that_look_like_numbers_are_not_parsed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_decoding, "exact_float", pytest.fail)
    assert parsed(b'["article-100","6ba7b81e-9dad-11d1-80b4-00c04fd430c8"]')[0] == "article-100"
