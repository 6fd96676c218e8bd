"""Dates, times and intervals of Postgres, far ones among them."""

import datetime as dt
import random

import pytest

from fencepost.builtin.postgres.envelope import moment


def test_days_are_those_of_postgres_in_all_years() -> None:
    known = {"1970-01-01": 0, "0001-01-01": -719162, "0001-12-31 BC": -719163, "4714-11-24 BC": -2440588}
    known |= {"10000-01-01": 2932897}
    for text, number in known.items():
        assert moment.day(text) == number, text


def test_moments_beyond_pythons_years_agree_with_near_ones_400_years_apart(seed: int) -> None:
    drawn = random.Random(seed)
    for _ in range(500):
        near = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=drawn.randrange(10**16))
        shown = f"{near:%m-%d %H:%M:%S}.{near.microsecond:06d}"
        year = near.year + 400 * drawn.choice([-20, -6, 21, 100])
        far = f"{year:04d}-{shown}" if year > 0 else f"{1 - year:04d}-{shown} BC"
        cycle = 146_097 * 86_400_000_000 // 400
        expected = moment.microseconds(f"{near.year}-{shown}") + (year - near.year) * cycle
        assert moment.microseconds(far) == expected, far


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-02-29 12:34:56.7+00", "2024-02-29T12:34:56.700000Z"),
        ("2024-02-29 12:34:56+00", "2024-02-29T12:34:56.000000Z"),
        ("2024-02-29 12:34:56+05:30", "2024-02-29T07:04:56.000000Z"),
        ("10000-01-01 00:00:00+00", "+10000-01-01T00:00:00.000000Z"),
        ("0001-01-01 00:00:00+00 BC", "0000-01-01T00:00:00.000000Z"),
        ("0044-03-15 12:00:00+00 BC", "-0043-03-15T12:00:00.000000Z"),
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
    ],
)
def test_zoned_timestamp_is_in_utc_with_the_columns_decimals(text: str, expected: str) -> None:
    assert moment.zoned_timestamp(6)(text) == expected


@pytest.mark.parametrize("wrong", ["", "now", "2024-02-30", "2024-2-3", "12:00", "2024-02-03 BCE"])
def test_text_that_is_no_date_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError):
        moment.day(wrong)


@pytest.mark.parametrize("wrong", ["x", "1 year ago", "P1D"])
def test_interval_in_another_style_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError):
        moment.interval_micros(wrong)
