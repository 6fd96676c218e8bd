"""Java's dates: patterns that are refused, and that texts which were formatted are parsed to the same moment."""

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.builtin.transform.java_date import SimpleDateFormat, iso_text
from fencepost.record.java_value import milliseconds, moment

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("yyyy-ww", "the letter w is not supported"),
        ("YYYY", "the letter Y is not supported"),
        ("b", "the letter b"),
        ("yyyy 'open", "Unterminated quote"),
        ("XXXX", "invalid ISO 8601 format"),
    ],
)
def test_a_pattern_that_java_refuses_or_that_is_not_supported_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        SimpleDateFormat(pattern)


@given(st.integers(FIRST_MS, LAST_MS))
@example(-12_219_292_800_000)
@example(-12_219_292_800_001)
def test_a_formatted_moment_is_parsed_to_itself(ms: int) -> None:
    for pattern in ("G yyyy-MM-dd'T'HH:mm:ss.SSSX", "EEE d MMMM yyy G hh:mm:ss a SSS", "GyyyyMMddHHmmssSSS"):
        date_format = SimpleDateFormat(pattern)
        assert date_format.parse(date_format.format(ms)) == ms, pattern


@pytest.mark.parametrize("pattern", ["y", "yy"])
def test_a_year_of_two_digits_is_near_the_present_as_in_java(pattern: str) -> None:
    """From 80 years before now to 20 years after it: which is why a year of the first century has its own patterns."""
    date_format = SimpleDateFormat(f"{pattern}-MM-dd")
    assert date_format.format(-59_011_632_000_001) == "99-12-31"
    assert moment(date_format.parse("99-12-31")) == dt.datetime(1999, 12, 31, tzinfo=dt.UTC)


@given(st.datetimes(dt.datetime(1583, 1, 1), dt.datetime(9999, 12, 31)))
def test_calendar_agrees_with_python_since_1583(value: dt.datetime) -> None:
    ms = milliseconds(value)
    assert SimpleDateFormat("yyyy-MM-dd HH:mm:ss").format(ms) == value.strftime("%Y-%m-%d %H:%M:%S")
    assert moment(ms) == value.replace(microsecond=value.microsecond // 1000 * 1000, tzinfo=dt.UTC)


def test_moment_outside_of_pythons_datetime_range_is_refused() -> None:
    with pytest.raises(ValueError, match="not between the years 1 and 9999"):
        moment(LAST_MS + 1)


def test_text_of_a_date_or_time_omits_unused_parts() -> None:
    assert iso_text(dt.date(2026, 1, 2)) == "2026-01-02"
    assert iso_text(dt.time(3, 4, 5)) == "03:04:05.000Z"
    assert iso_text(dt.datetime(2026, 1, 2, 3, 4, 5, 678_999)) == "2026-01-02T03:04:05.678Z"


_ZONES = Path(__file__).parents[3] / "fixtures" / "java-17" / "zones.tsv"  # made by tests/oracle/JavaZones.java


def test_zones_are_read_and_written_as_java_does() -> None:
    wrong = []
    for line in _ZONES.read_text(encoding="utf-8").splitlines():
        pattern, text, javas = line.split("\t")
        if not text:
            ours = SimpleDateFormat(pattern).format(1_594_814_400_000)
        else:
            try:
                ours = str(SimpleDateFormat(pattern).parse(text))
            except ValueError:
                ours = "refused"
        if ours != javas:
            wrong.append((pattern, text, javas, ours))
    assert wrong == []


def test_zone_is_refused_for_a_year_with_another_offset() -> None:
    """Moscow was ahead of UTC by other times before: a guess would be wrong."""
    read = SimpleDateFormat("yyyy-MM-dd HH:mm z").parse
    assert read("2020-07-15 12:00 MSK") == 1_594_803_600_000
    with pytest.raises(ValueError, match="2010-07-15"):
        read("2010-07-15 12:00 MSK")
