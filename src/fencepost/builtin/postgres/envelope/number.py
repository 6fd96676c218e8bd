"""Numbers, money, bits and bytes: Postgres' text to what Debezium makes of it."""

import base64
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from fencepost.record.java_value import big_integer

Convert = Callable[[str], Any]
SPECIAL = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}
_WIDE = Context(prec=140_000)  # the digits that a numeric may have


def precise(scale: int) -> Convert:
    """Return the function to decimals of one scale; NaN, which has none, becomes null, as in Debezium."""
    unit = Decimal((0, (1,), -scale))

    def convert(text: str) -> Decimal | None:
        return None if text in SPECIAL else Decimal(text).quantize(unit, context=_WIDE)

    return convert


def variable(text: str) -> dict[str, Any] | None:
    """Return a decimal with a scale of its own: without zeros at its end."""
    if text in SPECIAL:
        return None
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return {"scale": len(fraction), "value": big_integer(int(whole + fraction))}


def plain(text: str) -> str:
    """Return a decimal as Debezium writes it in text."""
    return SPECIAL.get(text, text)


def money(text: str) -> Decimal:
    """Return the number in money as Postgres writes it: `-$1,234.50`."""
    digits = text.replace(",", "").replace("$", "")
    return -Decimal(digits.strip("()-")) if digits[0] in "(-" else Decimal(digits)


def precise_money(digits: int) -> Convert:
    unit = Decimal((0, (1,), -digits))
    return lambda text: money(text).quantize(unit, ROUND_HALF_UP, context=_WIDE)


def bits(text: str) -> bytes:
    """Return bits, the last one first, in as few bytes as hold those that are set."""
    number = int(text, 2) if text else 0
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def binary(mode: str) -> Callable[[bytes], Any]:
    """Return the function from bytes to what `binary.handling.mode` says."""
    functions: dict[str, Callable[[bytes], Any]] = {
        "bytes": bytes,
        "base64": lambda value: base64.b64encode(value).decode("ascii"),
        "base64-url-safe": lambda value: base64.urlsafe_b64encode(value).decode("ascii"),
        "hex": bytes.hex,
    }
    return functions[mode]
