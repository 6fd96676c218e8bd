"""Connect's logical types: a schema name that gives the underlying type another meaning.

Values are Python's `Decimal`, `date`, `time` and `datetime` (UTC where it says nothing); date, time and timestamp
may also be given as the numbers that stand for them.
"""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from fencepost.api import RecordError, Schema
from fencepost.record.java_value import DAY_MS, EPOCH_DAY, big_integer, milliseconds, moment
from fencepost.record.literal import MOST_DIGITS
from fencepost.record.schema import DATE, TIME, TIMESTAMP
from fencepost.record.type_table import DECIMAL_NAME

_TOO_LARGE = 10**MOST_DIGITS


class LogicalType(NamedTuple):
    """Converts values of a logical type to the underlying type, and back."""

    to_plain: Callable[[Schema, Any], Any]
    from_plain: Callable[[Schema, Any], Any]


def scale_of(schema: Schema) -> int:
    """Return the scale of a decimal schema."""
    try:
        scale = int(dict(schema.parameters)["scale"])
    except (KeyError, ValueError):
        raise RecordError("Invalid Decimal schema: scale parameter not found, or not a number.") from None
    if abs(scale) > MOST_DIGITS:
        raise RecordError(f"Invalid Decimal schema: scale parameter is beyond {MOST_DIGITS}.")
    return scale


def unscaled(schema: Schema, value: Any) -> int:
    """Return a decimal's digits, with as many decimals as the schema has, as one integer.

    Raises RecordError if digits would be lost.
    """
    if not isinstance(value, Decimal) or not value.is_finite():
        raise RecordError(f"Invalid type for Decimal, expected a finite Decimal but was {shown(value)}")
    sign, digits, exponent = value.as_tuple()
    if value == 0:
        return 0
    shift = int(exponent) + scale_of(schema)
    if len(digits) + abs(shift) > MOST_DIGITS:  # a few bytes, 1e999999999, would keep a core busy for days
        raise RecordError(f"Decimal value {value} has mismatching scale for given Decimal.schema, or too many digits")
    number = int("".join(map(str, digits)))
    number, lost = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    if lost:
        raise RecordError(f"Decimal value {value} has mismatching scale for given Decimal.schema")
    return int(-number if sign else number)


def with_scale(schema: Schema, number: int) -> Decimal:
    """Return the decimal with these digits and the schema's scale. Raises RecordError for too many digits."""
    if abs(number) >= _TOO_LARGE:
        raise RecordError(f"Invalid Decimal value: it has more than {MOST_DIGITS} digits")
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale_of(schema)))


def has_many_zeros(number: Decimal) -> bool:
    """Say whether a short finite decimal has thousands of digits: 1e999999999."""
    _, digits, exponent = number.as_tuple()
    return int(exponent) > MOST_DIGITS or -int(exponent) - len(digits) > MOST_DIGITS


def shown(value: Any) -> str:
    """Return the beginning of a value for a message; the type of an integer with too many digits to print."""
    try:
        return repr(value)[:80]
    except ValueError:
        return type(value).__name__


def _decimal(schema: Schema, data: Any) -> Decimal:
    if not isinstance(data, bytes) or not data:
        raise RecordError("Invalid type for Decimal, underlying representation should be bytes with digits")
    return with_scale(schema, int.from_bytes(data, "big", signed=True))


def _to_number(logical: str, kind: type, number_of: Callable[[Any], int]) -> Callable[[Schema, Any], int]:
    def to_number(_: Schema, value: Any) -> int:
        if isinstance(value, kind) and (kind is not dt.date or not isinstance(value, dt.datetime)):
            return number_of(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise RecordError(f"Invalid type for {logical}, expected {kind.__name__} but was {type(value).__name__}")

    return to_number


def _day(_: Schema, days: int) -> dt.date:
    try:
        return EPOCH_DAY + dt.timedelta(days=days)
    except OverflowError:
        raise RecordError(f"Date values must be in the years 1 to 9999, but found {days} days since 1970") from None


def _time(_: Schema, ms: int) -> dt.time:
    if not 0 <= ms < DAY_MS:
        raise RecordError(f"Time values must be milliseconds of a day, below {DAY_MS}, but found {ms}")
    return moment(ms).time()


def _moment(_: Schema, ms: int) -> dt.datetime:
    try:
        return moment(ms)
    except ValueError:
        text = f"Timestamp values must be in the years 1 to 9999, but found {ms} ms since 1970"
        raise RecordError(text) from None


LOGICAL_TYPES: dict[str | None, LogicalType] = {
    DECIMAL_NAME: LogicalType(lambda schema, value: big_integer(unscaled(schema, value)), _decimal),
    DATE.name: LogicalType(_to_number("Date", dt.date, lambda day: (day - EPOCH_DAY).days), _day),
    TIME.name: LogicalType(_to_number("Time", dt.time, milliseconds), _time),
    TIMESTAMP.name: LogicalType(_to_number("Timestamp", dt.datetime, milliseconds), _moment),
}
