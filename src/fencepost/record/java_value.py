"""Values as Java treats them: floating-point numbers with 32 bits and as text, integers of a fixed width or of any
size as the bytes of a BigInteger, times as milliseconds since 1970 (in UTC unless they say otherwise), and UTF-8.

Java reads what is not UTF-8 as U+FFFD.
"""

import codecs
import datetime as dt
import math
import struct

REPLACED = "fencepost.java"
"""For `errors=` when UTF-8 is decoded. Python's own `replace` divides halves of surrogate pairs in other places."""


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    first, *following = error.object[error.start : error.start + 3]
    if first == 0xED and following and 0xA0 <= following[0] <= 0xBF:  # half of a pair: one character for all its bytes
        is_whole = len(following) == 2 and 0x80 <= following[1] <= 0xBF
        return "\ufffd", error.start + (3 if is_whole else 2)
    return "\ufffd", error.end


codecs.register_error(REPLACED, _replace)


def as_java_writes(text: str) -> str:
    """Return what is read of a text that Java has written as UTF-8: halves of surrogate pairs have become `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def java_decoded(data: bytes) -> str:
    """Return the text that Java reads."""
    return data.decode("utf-8", REPLACED)


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EPOCH_DAY = EPOCH.date()
MILLISECOND = dt.timedelta(milliseconds=1)
DAY_MS = 24 * 60 * 60 * 1000


def milliseconds(value: dt.date | dt.time) -> int:
    """Return a datetime or date as milliseconds since 1970, and a time as those of its day."""
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return (aware - EPOCH) // MILLISECOND
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return (value - EPOCH_DAY).days * DAY_MS


def moment(ms: int) -> dt.datetime:
    """Return milliseconds since 1970 as a datetime. Raises ValueError before the year 1 and after 9999."""
    try:
        return EPOCH + ms * MILLISECOND
    except OverflowError:
        raise ValueError(f"{ms} ms since 1970 is not between the years 1 and 9999") from None


def fits(number: int, bits: int) -> bool:
    """Return whether a signed integer of `bits` holds the number."""
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1)


def cut(number: int, bits: int) -> int:
    """Return the lowest `bits` of a number as a signed integer, as Java's narrowing conversion does."""
    return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def big_integer(number: int) -> bytes:
    """Return the bytes of Java's BigInteger: as few as hold the number and its sign, the highest first."""
    bits: int = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


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
