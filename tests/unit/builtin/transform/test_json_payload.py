"""The payload of an outbox row: a number that does not fit keeps it as it is, and is never rounded."""

import pytest

from fencepost.builtin.transform.debezium.event_router import JsonExpansion


@pytest.mark.parametrize("number", [1 << 63, 1 << 64, -(1 << 63) - 1, -(1 << 64), 12345678901234567890123])
def test_an_integer_of_more_than_64_bits_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        JsonExpansion(keeps_nulls=False).expanded(f'{{"a": [{number}]}}', "payload")


@pytest.mark.parametrize(
    "text", ["1.2345678901234567890123", "12345678901234567890.5", "1e30", '"12345678901234567890"']
)
def test_long_texts_and_decimals_are_expanded(text: str) -> None:
    _, value = JsonExpansion(keeps_nulls=False).expanded(f'{{"a": {text}}}', "payload")
    assert value == {"a": text.strip('"') if '"' in text else float(text)}
