"""Values of Connect's logical types as the texts that Spark's `from_json` reads exactly, in any year. Pure."""

import base64
import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from typing import Any

_DAY_MS, _SECOND_MS = 86_400_000, 1_000
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400  # after this many years the calendar repeats itself
_EPOCH_DAY = dt.date(1970, 1, 1)
_MOST_MS = ((1 << 63) - 1) // 1_000  # Spark counts microseconds in 64 bits
_MOST_DAYS = 1 << 31
_LAST_YEAR = 9_999
_MILLIS = 3
_MOST_DIGITS = 10_000
_MOST_DECIMAL_BYTES = 1_024  # Spark's 38 digits take 16; Python prints integers of up to 4,300 digits
_MOST_PLAIN = 100  # the most digits written without an exponent: Spark reads a number with one as a double
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_SCALE = re.compile(r"[+-]?\d{1,5}", re.ASCII)
_MOST_SHOWN, _LONGEST_REASON = 40, 1_000

UNWRITABLE = "it has a text that is not Unicode (half of a surrogate pair), or is nested too deeply"


class MisfitError(ValueError):
    """A value does not fit the column at `path`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the payload'}: {reason}")


def reason_of(error: Exception) -> str:
    """Return why a record does not fit, as text that can always be encoded and is not long."""
    text = str(error) if isinstance(error, MisfitError) else f"the payload: it cannot be read: {error!r}"
    return text[:_LONGEST_REASON].encode(errors="replace").decode()


def exact_number(text: str) -> Decimal:
    """Return the number of a JSON text, with all its digits. Raises MisfitError if it cannot be represented."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise MisfitError("", f"{shortened(text)} has an exponent that is too large") from None


def digits_of(number: Decimal) -> str:
    """Return a number in JSON, without an exponent unless it has too many digits."""
    text = str(number)
    if "E" not in text:
        return text
    is_short = int(number.as_tuple().exponent) >= -_MOST_PLAIN and number.adjusted() <= _MOST_PLAIN
    return format(number, "f") if is_short else text


def scale_of(parameters: Any, path: str) -> int:
    """Return the scale in a schema's parameters. Raises MisfitError."""
    text = parameters.get("scale") if isinstance(parameters, dict) else None
    if not isinstance(text, str) or not _SCALE.fullmatch(text) or abs(scale := int(text)) > _MOST_DIGITS:
        raise MisfitError(path, f"its schema is a Decimal whose scale is not a number up to {_MOST_DIGITS:,}")
    return scale


def whole_number(value: Any, path: str) -> int:
    """Return a parsed JSON number as an integer. Raises MisfitError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, Decimal) and _is_modest(value) and value == value.to_integral_value():
        return int(value)
    raise MisfitError(path, f"{shown(value)} is not a whole number")


def number_text(value: Any, path: str) -> Decimal:
    """Return a parsed JSON number, or a number in a text, without rounding it. Raises MisfitError."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if is_number or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        number = exact_number(value) if isinstance(value, str) else Decimal(value)
        if _is_modest(number):
            return number
    raise MisfitError(path, f"{shown(value)} is not a number")


def decimal_of(value: Any, scale: int, path: str) -> Decimal:
    """Return the value of a Decimal: base64 of its digits as bytes, or a number. Raises MisfitError."""
    if not isinstance(value, str):
        return number_text(value, path)
    try:
        data = base64.b64decode(value, validate=True)
    except ValueError:  # also for text that is not ASCII
        raise MisfitError(path, f"{shown(value)} is not base64 of a Decimal") from None
    if len(data) > _MOST_DECIMAL_BYTES:
        raise MisfitError(path, f"a Decimal of {len(data):,} bytes has more digits than a column")
    digits = int.from_bytes(data, "big", signed=True)
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


def decimal_text(number: Decimal) -> str:
    """Return all digits of a number, without an exponent."""
    return format(number, "f")


def date_text(days: int, path: str = "") -> str:
    """Return the date that is so many days after 1970-01-01. Raises MisfitError beyond 32 bits."""
    if not -_MOST_DAYS <= days < _MOST_DAYS:
        raise MisfitError(path, f"{shown(days)} days are beyond what a date holds")
    cycles, rest = divmod(days, _CYCLE_DAYS)
    day = _EPOCH_DAY + dt.timedelta(days=rest)
    year = day.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > _LAST_YEAR else ""
    return f"{sign}{abs(year):04d}-{day.month:02d}-{day.day:02d}"


def time_text(millis: int, path: str, precision: int) -> str:
    """Return a time of day. Raises MisfitError beyond a day, or for more digits than the column has."""
    if not 0 <= millis < _DAY_MS:
        raise MisfitError(path, f"{shown(millis)} ms are not a time of day")
    if precision < _MILLIS and millis % 10 ** (_MILLIS - precision):
        raise MisfitError(path, f"{_of_day(millis)} has more digits than TIME({precision})")
    return _of_day(millis)


def timestamp_text(millis: int, path: str) -> str:
    """Return a timestamp in UTC, without naming the zone. Raises MisfitError for one that Spark cannot hold."""
    if not -_MOST_MS <= millis <= _MOST_MS:
        raise MisfitError(path, f"{shown(millis)} ms since 1970 are beyond what a timestamp holds")
    days, rest = divmod(millis, _DAY_MS)
    return f"{date_text(days, path)}T{_of_day(rest)}"


def _is_modest(number: Decimal) -> bool:
    """Return whether a number can be written without an exponent."""
    return number.is_finite() and abs(number.adjusted()) <= _MOST_DIGITS


def _of_day(millis: int) -> str:
    seconds, millis = divmod(millis, _SECOND_MS)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}.{millis:03d}"


def shown(value: Any) -> str:
    """Return the beginning of a value, for a message."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return shortened(str(Decimal(value)) if is_number else repr(value))  # Python prints no integer of 4,300 digits


def shortened(text: str) -> str:
    """Return the beginning of a text, for a message."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
