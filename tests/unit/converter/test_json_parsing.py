"""Numbers of JSON stay what they are, from topic to topic."""

from decimal import Decimal

import pytest

from fencepost.api import RecordError
from fencepost.converter.json import JsonConverter

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
        ("1E-400", Decimal("1E-400")),
        ("0.30000000000000004", 0.30000000000000004),
        ("1e300", 1e300),
        ("1.5", 1.5),
    ],
)
def test_a_number_is_exact(text: str, value: object) -> None:
    digits = "7" * 5_000
    for data in (f'{{"n":{text},"s":"{digits}"}}', f'[{{"s":"4111111111111111.5.5.1"}},{{"n":{text}}}]'):
        _, found = PLAIN.to_connect_data("t", data.encode())
        inner = found[1] if isinstance(found, list) else found
        assert inner["n"] == value
        assert type(inner["n"]) is type(value)
        written = PLAIN.from_connect_data("t", None, found)
        assert written is not None
        assert PLAIN.to_connect_data("t", written) == (None, found)


NO_JSON = [
    b'{"n":1e999}', b'{"n":007}', b"\xef\xbb\xbf{}", b"", b'{"n":"\\ud800"}', b"{} {}", b'{"n":NaN}', b'"\xff"',
    b'{"n":1' + b"0" * 400 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("data", NO_JSON)
def test_what_cannot_be_exact_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        PLAIN.to_connect_data("t", data)


def test_a_column_of_values_is_written_exactly_too() -> None:
    values = [{"n": 1 << 70}, {"n": 1}]
    written = PLAIN.from_column(None, values) or [PLAIN.from_connect_data("t", None, value) for value in values]
    assert list(written) == [b'{"n":1180591620717411303424}', b'{"n":1}']
