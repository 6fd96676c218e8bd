"""JSON as Python's values, with numbers that are exact: those that a double would round are integers or Decimals."""

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

# A double has 15 digits for certain. To look for a run of 16 and a point is far quicker than to look for numbers.
_DIGITS = bytes(0x30 if chr(byte) in "0123456789." else 0x20 for byte in range(256))
_LONG_RUN = b"0" * 17
_LONG_NUMBER = re.compile(rb"\d[\d.]{16,}(?:[eE][-+]?\d+)?")
_TINY_NUMBER = re.compile(rb"\d[eE]-\d{3}")
_MOST = (1 << 63) - 1  # of what orjson does not read as a double, whatever the sign is


def parsed(data: bytes) -> Any:
    """Parse JSON. Raises ValueError, also for a number that is too large for a double to come near it."""
    found = orjson.loads(data)
    return json.loads(data, parse_float=_float) if _has_rounded_number(data) else found


def _has_rounded_number(data: bytes) -> bool:
    if _LONG_RUN in data.translate(_DIGITS) and any(map(_is_rounded, _LONG_NUMBER.findall(data))):
        return True
    return (b"e-" in data or b"E-" in data) and _TINY_NUMBER.search(data) is not None


def _is_rounded(number: bytes) -> bool:
    if number.isdigit():
        return int(number) > _MOST if len(number) < 4_000 else True
    try:
        return isinstance(_float(number.decode()), Decimal)
    except (InvalidOperation, ValueError):  # it is part of a text
        return False


def _float(text: str) -> float | Decimal:
    """Return a double where its shortest digits are these, else all of them."""
    near, exact = float(text), Decimal(text)
    return near if Decimal(repr(near)) == exact else exact
