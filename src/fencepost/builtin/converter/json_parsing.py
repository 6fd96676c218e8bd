"""Parses JSON with exact numbers: those that a double would round become integers or Decimals."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from fencepost.builtin.converter.logical import has_many_zeros

# A double holds any 15 digits. For most records two searches of the bytes show that no number has more.
_SHAPES = bytes(
    ord("0" if (c := chr(byte)) in "0123456789." else c.lower() if c in "eE-+" else " ") for byte in range(256)
)
_LONG, _TINY = b"0" * 16, b"0e-000"
_DIGIT = ord("0")
_REST = re.compile(rb"0*(?:e[-+]?0+)?")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_MOST_DIGITS, _MOST = 100, (1 << 63) - 1  # of numbers that orjson does not parse as doubles, with either sign


def parsed(data: bytes) -> Any:
    """Parse JSON. Raises ValueError, also for a number that is far too large for a double."""
    found = orjson.loads(data)
    shapes = data.translate(_SHAPES)
    if any(map(_is_rounded, _suspects(data, shapes))):
        return json.loads(data, parse_float=exact_float)
    return found


def parsed_with_decimals(data: bytes) -> Any:
    """Parse JSON in which a decimal may be a number: all numbers with a fraction become Decimals. Raises ValueError."""
    found = json.loads(data.decode(), parse_float=exact_decimal, parse_constant=_refused)
    if _HALF.search(data):
        json.dumps(found, ensure_ascii=False, default=str).encode()  # half of a surrogate pair is a UnicodeEncodeError
    return found


def _suspects(data: bytes, shapes: bytes) -> Iterator[bytes]:
    """Yield the parts of JSON that may be numbers which a double would round; some are parts of texts."""
    for shape in (_LONG, _TINY):
        start = shapes.find(shape)
        while start >= 0:
            rest = _REST.match(shapes, start)
            end = start if rest is None else rest.end()
            while start and shapes[start - 1] == _DIGIT:  # of the number whose exponent was found
                start -= 1
            yield data[start:end]
            start = shapes.find(shape, end)


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _is_rounded(number: bytes) -> bool:
    if number.isdigit():
        return len(number) > _MOST_DIGITS or int(number) > _MOST
    text = number.decode()
    try:
        if repr(float(text)) == text:
            return False
    except ValueError:  # it is part of a text
        return False
    try:
        return isinstance(exact_float(text), Decimal)
    except ValueError:  # it cannot be exact
        return True


def exact_float(text: str) -> float | Decimal:
    """Return a double if these are its shortest digits, else an exact number."""
    near = float(text)
    shortest = repr(near)
    if shortest == text:
        return near
    exact = exact_decimal(text)
    return near if Decimal(shortest) == exact else exact


def exact_decimal(text: str) -> Decimal:
    """Return a number with all its digits. Raises ValueError for one with thousands of zeros."""
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text[:80]} is not a number that can be kept") from None
    if not has_many_zeros(exact):
        return exact
    if exact:
        raise ValueError(f"{text[:80]} is too large, or too close to 0, to be kept exactly")
    return Decimal(0)
