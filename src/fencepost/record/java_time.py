"""Dates and times as in Java: milliseconds since 1970, in UTC unless they say otherwise."""

import datetime as dt

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
