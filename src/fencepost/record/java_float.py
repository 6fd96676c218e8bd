"""Floating-point numbers as in Java: with 32 bits, and as text."""

import math
import struct

_FLOAT32 = struct.Struct("=f")
_SHORTEST_DIGITS, _MOST_DIGITS = 6, 9
_LEAST_NORMAL = 2.0**-126


def float32(value: float) -> float:
    """Return the nearest 32-bit number. Raises OverflowError if the number is out of range."""
    found: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return found


def shortest_float32(value: float) -> float:
    """Return the number with the fewest digits that has the 32-bit value `value`, as Java prints: 0.1, 123456.79."""
    if not math.isfinite(value):
        return value
    packed = _FLOAT32.pack(value)
    for digits in range(_SHORTEST_DIGITS if abs(value) >= _LEAST_NORMAL else 2, _MOST_DIGITS):
        short = float(f"{value:.{digits}g}")
        if _FLOAT32.pack(short) == packed:
            return short
    return float(f"{value:.{_MOST_DIGITS}g}")


def java_float_text(value: float) -> str:
    """Return a number as Java's `Double.toString` does: `1.0E10`, `1.0E-4`, `NaN`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:.{max(_significant(value) - 1, 1)}e}".partition("e")
    return f"{mantissa}E{int(exponent)}"


def _significant(value: float) -> int:
    digits = repr(value).lower().partition("e")[0].replace(".", "").replace("-", "").strip("0")
    return len(digits)
