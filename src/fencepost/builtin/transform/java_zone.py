"""Zones of time in a text, as Java's `SimpleDateFormat` reads them.

Names are those of `java_zones.tsv`, which `tests/oracle/JavaZones.java` has asked Java for, in English, each with the
year since which it is ahead of UTC by the same time; without a year, it always is. A name is that of Java's first zone
that has it: IST is Israel's.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_NAMES = Path(__file__).with_name("java_zones.tsv")
_HOURS_AND_MINUTES = re.compile(r"([0-9]{2})([0-9]{2})")  # of RFC 822
_AFTER_GMT = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_OF_ISO = {1: re.compile(r"([0-9]{2})()"), 2: _HOURS_AND_MINUTES, 3: re.compile(r"([0-9]{2}):([0-9]{2})")}
_GMT = "GMT"

ALWAYS = -1_000_000_000


class Zone(NamedTuple):
    """By how many minutes a zone is ahead of UTC, where it ends in the text, and since which year this holds."""

    minutes: int
    end: int
    since: int = ALWAYS


def zone_at(text: str, at: int, letter: str, count: int) -> Zone:
    """Return the zone at a place of a text.

    `letter` is X, as often as `count`, z or Z. What follows a zone in the text is not looked at. Raises ValueError if
    there is no zone at this place.
    """
    sign = text[at : at + 1]
    if letter == "X":
        if sign == "Z":
            return Zone(0, at + 1)
        return _offset(_OF_ISO[count], text, at)
    if sign in ("+", "-"):
        return _offset(_HOURS_AND_MINUTES, text, at)
    if text[at : at + 3].upper() == _GMT:
        has_offset = text[at + 3 : at + 4] in ("+", "-")
        return _offset(_AFTER_GMT, text, at + 3) if has_offset else Zone(0, at + 3)
    return _named(text, at)


def _offset(form: re.Pattern[str], text: str, at: int) -> Zone:
    found = form.match(text, at + 1)
    sign = {"+": 1, "-": -1}.get(text[at : at + 1])
    if found is None or sign is None:
        raise ValueError(text)
    hours, minutes = int(found[1]), int(found[2] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(text)
    return Zone(sign * (hours * 60 + minutes), found.end())


def _named(text: str, at: int) -> Zone:
    rest = text[at:].lower()
    for name, minutes, since in _names():
        if rest.startswith(name):
            return Zone(minutes, at + len(name), since)
    raise ValueError(text)


@lru_cache(1)
def _names() -> list[tuple[str, int, int]]:
    """Return the names, in lower case, long ones first."""
    lines = (line.split("\t") for line in _NAMES.read_text(encoding="utf-8").splitlines())
    found = ((name, int(minutes), int(since) if since else ALWAYS) for name, minutes, since in lines)
    return sorted(found, key=lambda each: -len(each[0]))
