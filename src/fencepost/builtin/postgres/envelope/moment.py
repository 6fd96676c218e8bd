"""Dates, times and intervals: Postgres' text in the style ISO to what Debezium makes of it.

The years 1 to 9999 are read by Python's own parser; other years, BC and infinity by `_far`.
"""

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = 719_163
_DAY_US, _SECOND_US = 86_400_000_000, 1_000_000
_DAYS_PER_MONTH = 365.25 / 12.0
_MAX64, _MIN64 = (1 << 63) - 1, -(1 << 63)
# What Debezium makes of infinity in the stream: of dates, two days of the year 5,877,612 BC.
INFINITE_DAY = {"infinity": -2_147_472_692, "-infinity": -2_147_472_691}
INFINITE_US = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
_FAR = re.compile(
    r"(\d+)-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?(?:([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?)?( BC)?"
)
_INTERVAL = re.compile(
    r"(?:(-?\+?\d+) years?)? ?(?:([-+]?\d+) mons?)? ?(?:([-+]?\d+) days?)? ?(?:([-+]?)(\d+):(\d\d):(\d\d(?:\.\d+)?))?"
)
Convert = Callable[[str], Any]


def day(text: str) -> int:
    """Return the days since 1970."""
    try:
        return dt.date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:
        infinite = INFINITE_DAY.get(text)
        return _far(text) // _DAY_US if infinite is None else infinite


def microseconds(text: str) -> int:
    """Return the microseconds since 1970 of a timestamp without a zone, or with one."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        infinite = INFINITE_US.get(text)
        return _far(text) if infinite is None else infinite
    since = (moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)) - EPOCH
    return since.days * _DAY_US + since.seconds * _SECOND_US + since.microseconds


def milliseconds(text: str) -> int:
    return microseconds(text) // 1000


def nanoseconds(text: str) -> int | None:
    """Return the nanoseconds since 1970; None outside of the years 1678 to 2261, as in Debezium."""
    if text in INFINITE_US:
        return _MAX64 if text == "infinity" else _MIN64
    found = microseconds(text) * 1000
    return found if _MIN64 <= found <= _MAX64 else None


def time_of_day(text: str) -> int:
    """Return the microseconds since midnight; 24:00 is one more than the last."""
    whole, _, fraction = text.partition(".")
    hours, minutes, seconds = whole.split(":")
    return (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * _SECOND_US + int(f"{fraction:0<6}")


def zoned_time(text: str) -> str:
    """Return a time with its zone in UTC, as ISO 8601 with as many decimals as are needed."""
    at = max(text.rfind("+"), text.rfind("-"))
    hours, *rest = text[at + 1 :].split(":")
    offset = int(hours) * 3600 + sum(int(part) * unit for part, unit in zip(rest, (60, 1), strict=False))
    number = time_of_day(text[:at]) - (offset if text[at] == "+" else -offset) * _SECOND_US
    return f"{_clock(number % _DAY_US)}Z"


def iso_time(text: str) -> str:
    return f"{_clock(time_of_day(text) % _DAY_US)}Z"


def zoned_timestamp(digits: int) -> Convert:
    """Return the function from timestamps with a zone to ISO 8601 in UTC, with a number of decimals (0: as needed)."""

    def convert(text: str) -> str:
        if text.endswith("+00") and text[4] == "-":  # a session in UTC, and a year of four digits
            whole, _, fraction = text[:-3].partition(".")
            end = f".{fraction:0<{digits}}" if digits else (f".{_padded(fraction)}" if fraction else "")
            return f"{whole[:10]}T{whole[11:]}{end}Z"
        return text if text in INFINITE_US else _iso(microseconds(text), digits)

    return convert


def iso_timestamp(text: str) -> str:
    return _iso(microseconds(text), 0)


def iso_date(text: str) -> str:
    return f"{_iso(day(text) * _DAY_US, 0)[:-10]}Z"


def interval_micros(text: str) -> int:
    """Return microseconds, with months of 30.4375 days, in the arithmetic of doubles that Debezium uses."""
    years, months, days, hours, minutes, seconds = _interval(text)
    all_days = (years * 12 + months) * _DAYS_PER_MONTH + days
    all_seconds = (((all_days * 24 + hours) * 60) + minutes) * 60 + float(seconds)
    return max(_MIN64, min(_MAX64, int(all_seconds * 1e6)))


def interval_iso(text: str) -> str:
    years, months, days, hours, minutes, seconds = _interval(text)
    shown = format(seconds.normalize(), "f") if seconds else "0"
    return f"P{years}Y{months}M{days}DT{hours}H{minutes}M{shown}S"


def _interval(text: str) -> tuple[int, int, int, int, int, Decimal]:
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an interval in the style `postgres`")
    years, months, days = (int(part or 0) for part in found.group(1, 2, 3))
    sign = -1 if found[4] == "-" else 1
    hours, minutes = (sign * int(part or 0) for part in found.group(5, 6))
    return years, months, days, hours, minutes, sign * Decimal(found[7] or 0)


def _far(text: str) -> int:
    """Return the microseconds since 1970 of a moment in any year."""
    found = _FAR.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a date or timestamp in the style ISO")
    year, month, day_of_month, hours, minutes, seconds = (int(part or 0) for part in found.group(1, 2, 3, 4, 5, 6))
    if found[12]:
        year = 1 - year
    whole = _days(year, month, day_of_month) * _DAY_US + ((hours * 60 + minutes) * 60 + seconds) * _SECOND_US
    offset = sum(int(part or 0) * unit for part, unit in zip(found.group(9, 10, 11), (3600, 60, 1), strict=True))
    return whole + int(f"{found[7] or '':0<6}") - (-offset if found[8] == "-" else offset) * _SECOND_US


def _days(year: int, month: int, day_of_month: int) -> int:
    """Return the days since 1970 of a date in the proleptic Gregorian calendar."""
    cycles, rest = divmod(year - 1, 400)
    return (
        cycles * 146_097
        + dt.date(rest + 1, 1, 1).toordinal()
        + _day_of_year(rest + 1, month, day_of_month)
        - 1
        - _EPOCH_DAY
    )


def _day_of_year(year: int, month: int, day_of_month: int) -> int:
    return dt.date(year, month, day_of_month).toordinal() - dt.date(year, 1, 1).toordinal() + 1


def _iso(number: int, digits: int) -> str:
    """Return microseconds since 1970 as ISO 8601, as Java writes years with more than four digits or before 1."""
    days, clock = divmod(number, _DAY_US)
    cycles, rest = divmod(days + _EPOCH_DAY - 1, 146_097)
    date = dt.date.fromordinal(rest + 1)
    year = date.year + cycles * 400
    shown = f"{year:04d}" if 0 <= year <= 9999 else (f"+{year}" if year > 0 else f"-{-year:04d}")
    return f"{shown}-{date.month:02d}-{date.day:02d}T{_clock(clock, digits)}Z"


def _clock(number: int, digits: int = 0) -> str:
    seconds, fraction = divmod(number, _SECOND_US)
    written = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if digits:
        return f"{written}.{fraction:06d}"[: len(written) + 1 + digits]
    return f"{written}.{_padded(f'{fraction:06d}')}" if fraction else written


def _padded(fraction: str) -> str:
    """Return decimals without zeros at their end."""
    return fraction.rstrip("0")
