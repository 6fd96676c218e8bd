"""Java's dates: the calendar that it counts milliseconds since 1970 by, and `SimpleDateFormat`.

Java counts by the Julian calendar before 15 October 1582, Python by the Gregorian one. Everything here is UTC, with
English names of months and days.
"""

import datetime as dt
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.config.check import Check
from fencepost.record.java_value import DAY_MS, milliseconds

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
    lines = (line.split("\t") for line in _NAMES.read_text(encoding="utf-8").splitlines())
    found = ((name, int(minutes), int(since) if since else ALWAYS) for name, minutes, since in lines)
    return sorted(found, key=lambda each: -len(each[0]))


_FIRST_GREGORIAN_DAY = -141_427  # 15 October 1582, in days since 1970
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_FIXED = "yMdHm"  # letters of numbers that are written with a digit for each letter, if they have as many
_DIGIT = re.compile("[0-9]")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>[^A-Za-z']+)|(?P<open>')")
_ISO_DATE, _ISO_TIME = "yyyy-MM-dd", "HH:mm:ss.SSS'Z'"
_MINUTE_MS = 60_000
_WITHIN_MINUTE = ("s", "S")
_SHORT_NAME = 4  # letters from which on a name is written in full
_CENTURY_BACK = 80  # a year of two digits lies between 80 years ago and 20 years ahead


def iso_text(value: dt.date | dt.time) -> str:
    """Return the text that Kafka writes: by the milliseconds since 1970 a time, a date, or both.

    Everything before 2 January 1970 is taken for a time, as Kafka's `Values.dateFormatFor` does.
    """
    ms = milliseconds(value)
    pattern = _ISO_TIME if ms < DAY_MS else _ISO_DATE if ms % DAY_MS == 0 else f"{_ISO_DATE}'T'{_ISO_TIME}"
    return SimpleDateFormat(pattern).format(ms)


class _Fields(NamedTuple):
    """A moment in Java's calendar. `year` is 0 or less before Christ; `month` and `day` begin with 1."""

    year: int
    month: int
    day: int
    ms_of_day: int
    weekday: int
    day_of_year: int

    @property
    def era_year(self) -> int:
        return self.year if self.year > 0 else 1 - self.year


def _fields(ms: int) -> _Fields:
    days, ms_of_day = divmod(ms, DAY_MS)
    year, month, day = _civil(days)
    return _Fields(year, month, day, ms_of_day, (days + 3) % 7, days - _days(year, 1, 1) + 1)


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of days since 1970 (Richards, "Mapping Time", 1998)."""
    julian_day = days + 2_440_588
    f = julian_day + 1401
    if days >= _FIRST_GREGORIAN_DAY:
        f += (4 * julian_day + 274_277) // 146_097 * 3 // 4 - 38
    e = 4 * f + 3
    h = 5 * (e % 1461 // 4) + 2
    month = (h // 153 + 2) % 12 + 1
    return e // 1461 - 4716 + (14 - month) // 12, month, h % 153 // 5 + 1


def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date; a month or day that does not exist counts on, as in Java."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    back = (14 - month) // 12
    y, m = year + 4800 - back, month + 12 * back - 3
    julian = day + (153 * m + 2) // 5 + 365 * y + y // 4 - 32_083 - 2_440_588
    gregorian = julian - y // 100 + y // 400 + 38
    return gregorian if gregorian >= _FIRST_GREGORIAN_DAY else julian


class _Part(NamedTuple):
    """A part of a pattern: a letter that is repeated `length` times, or a text."""

    letter: str
    length: int
    text: str = ""


class SimpleDateFormat:
    """Formats and parses milliseconds since 1970 by a pattern of Java's class of this name, leniently as it does.

    Knows the letters G y M L d D E u a H k K h m s S z Z X. Raises ValueError for another letter or an open quote.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = _parts(pattern)
        self._layout = _layout(self._parts)
        self._arranged = _arranged([part.letter for part in self._parts if part.letter in _WITHIN_MINUTE])

    def format(self, ms: int) -> str:
        """Return the text of a moment."""
        fields = _fields(ms)
        return "".join(
            _FORMATTERS[part.letter](fields, part.length) if part.letter else part.text for part in self._parts
        )

    def format_all(self, moments: Sequence[int]) -> list[str]:
        """Return the texts of many moments; all of a minute share the work, except for seconds and milliseconds."""
        templates: dict[int, str] = {}
        texts = []
        for ms in moments:
            minute, ms_of_minute = divmod(ms, _MINUTE_MS)
            template = templates.get(minute)
            if template is None:
                template = templates[minute] = self._template(minute)
            texts.append(template % self._arranged(divmod(ms_of_minute, 1000)))
        return texts

    def parse_all(self, texts: Sequence[str]) -> list[int]:
        """Return the moments that many texts begin with, as `parse` does.

        Where all parts have their digits, texts that are the same but for seconds and milliseconds share the work.
        """
        if self._layout is None:
            return [self.parse(text) for text in texts]
        minutes: dict[str, int] = {}
        moments = []
        for text in texts:
            found = self._layout.fullmatch(text)
            if found is None:
                moments.append(self.parse(text))
                continue
            minute, second, ms = found.groups("0")
            moment = minutes.get(minute)
            if moment is None:
                rest = _DIGIT.sub("0", text[len(minute) :])
                moment = minutes[minute] = self.parse(minute + rest)
            moments.append(moment + int(second) * 1000 + int(ms))
        return moments

    def _template(self, minute: int) -> str:
        fields = _fields(minute * _MINUTE_MS)
        pieces = []
        for part in self._parts:
            if part.letter in _WITHIN_MINUTE:
                pieces.append(f"%0{part.length}d")
            else:
                text = _FORMATTERS[part.letter](fields, part.length) if part.letter else part.text
                pieces.append(text.replace("%", "%%"))
        return "".join(pieces)

    def parse(self, text: str) -> int:
        """Return the moment that a text begins with. Raises ValueError if it does not match the pattern."""
        reading = _Reading(text)
        for index, part in enumerate(self._parts):
            if part.letter:
                following = self._parts[index + 1] if index + 1 < len(self._parts) else None
                is_abutting = following is not None and following.letter in _NUMERIC
                reading.read(part, is_abutting=is_abutting)
            else:
                reading.skip(part.text)
        return reading.milliseconds()


def _parts(pattern: str) -> list[_Part]:
    parts: list[_Part] = []
    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            raise ValueError("Unterminated quote")
        if token["letters"]:
            letter = token["letters"][0]
            if letter not in _FORMATTERS:
                known = "".join(sorted(_FORMATTERS, key=str.lower))
                raise ValueError(f"the letter {letter} is not supported here; known are {known}")
            if letter == "X" and len(token["letters"]) > 3:
                raise ValueError("invalid ISO 8601 format: length=" + str(len(token["letters"])))
            parts.append(_Part(letter, len(token["letters"])))
        else:
            text = token["other"] or token["quoted"].replace("''", "'") or "'"
            parts.append(_Part("", 0, text))
    return parts


def _layout(parts: Sequence[_Part]) -> re.Pattern[str] | None:
    """Return what matches a text in which each part has as many digits as letters, if all parts are such numbers.

    Its groups are all up to the seconds, the seconds and the milliseconds, in this order; else there is no layout.
    """
    order = "".join(part.letter for part in parts)
    minute = order.rstrip("sS")
    if order[len(minute) :] not in ("s", "sS") or not set(minute) <= set(_FIXED):
        return None
    pieces = []
    for part in parts:
        is_name = part.letter == "M" and part.length >= 3
        if is_name or any(character.isdigit() for character in part.text):
            return None
        digits = f"[0-9]{{{part.length}}}"
        if part.letter == "s":
            digits = f")({digits})"
        elif part.letter == "S":
            digits = f"({digits})"
        pieces.append(digits if part.letter else re.escape(part.text))
    return re.compile("(" + "".join(pieces) + ("" if "S" in order else "((?!))?"))


def _arranged(letters: Sequence[str]) -> Callable[[tuple[int, int]], Any]:
    """Return what puts seconds and milliseconds into the order in which a pattern has them."""
    order = [_WITHIN_MINUTE.index(letter) for letter in letters]
    if order == [0, 1]:
        return lambda parts: parts
    if len(order) > 1:
        return itemgetter(*order)
    return itemgetter(order[0]) if order else lambda parts: ()


def _number(value: int, count: int) -> str:
    return f"-{-value:0{count}d}" if value < 0 else f"{value:0{count}d}"


def _month(fields: _Fields, count: int) -> str:
    name = _MONTHS[fields.month - 1]
    if count >= _SHORT_NAME:
        return name
    return name[:3] if count == 3 else _number(fields.month, count)


def _hours(first: int, hours: int) -> Callable[[_Fields, int], str]:
    def text(fields: _Fields, count: int) -> str:
        hour = fields.ms_of_day // 3_600_000 % hours
        return _number(hour if hour >= first else hour + hours, count)

    return text


_FORMATTERS: dict[str, Callable[[_Fields, int], str]] = {
    "G": lambda fields, count: "AD" if fields.year > 0 else "BC",
    "y": lambda fields, count: f"{fields.era_year % 100:02d}" if count == 2 else _number(fields.era_year, count),
    "M": _month,
    "L": _month,
    "d": lambda fields, count: _number(fields.day, count),
    "D": lambda fields, count: _number(fields.day_of_year, count),
    "E": lambda fields, count: _DAYS[fields.weekday][: None if count >= _SHORT_NAME else 3],
    "u": lambda fields, count: _number(fields.weekday + 1, count),
    "a": lambda fields, count: "AM" if fields.ms_of_day < DAY_MS // 2 else "PM",
    "H": _hours(0, 24),
    "k": _hours(1, 24),
    "K": _hours(0, 12),
    "h": _hours(1, 12),
    "m": lambda fields, count: _number(fields.ms_of_day // 60_000 % 60, count),
    "s": lambda fields, count: _number(fields.ms_of_day // 1000 % 60, count),
    "S": lambda fields, count: _number(fields.ms_of_day % 1000, count),
    "z": lambda fields, count: "Coordinated Universal Time" if count >= _SHORT_NAME else "UTC",
    "Z": lambda fields, count: "+0000",
    "X": lambda fields, count: "Z",
}
_NUMERIC = frozenset("yMLdDuHkKhmsS")


class _Reading:
    """What was read of a text so far."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: dict[str, int] = {}
        self._zone_since = ALWAYS

    def skip(self, text: str) -> None:
        if not self._text.startswith(text, self._at):
            raise ValueError(self._text)
        self._at += len(text)

    def read(self, part: _Part, *, is_abutting: bool) -> None:
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        letter, count = part.letter, part.length
        if letter in "ML" and count >= 3:
            self._found["M"] = self._name(_MONTHS) + 1
        elif letter == "E":
            self._name(_DAYS)
        elif letter in "aG":
            self._found[letter] = self._name(("AM", "PM") if letter == "a" else ("BC", "AD"))
        elif letter in "zZX":
            zone = zone_at(self._text, self._at, letter, count)
            self._at, self._zone_since = zone.end, zone.since
            self._found["zone"] = zone.minutes * _MINUTE_MS
        else:
            start = self._at
            value = self._integer(count if is_abutting else None)
            if letter == "y" and count <= 2 and self._at - start == 2 and self._text[start : self._at].isdigit():
                value = _near_century(value)
            self._found["M" if letter == "L" else letter] = value

    def _integer(self, most: int | None) -> int:
        rest = self._text[self._at :] if most is None else self._text[self._at : self._at + most]
        found = re.match(r"-?\d+", rest)
        if found is None or (most is not None and len(rest) < most):
            raise ValueError(self._text)
        self._at += found.end()
        return int(found[0])

    def _name(self, names: tuple[str, ...]) -> int:
        rest = self._text[self._at :].lower()
        for length in (None, 3):
            for index, name in enumerate(names):
                if rest.startswith(name[:length].lower()):
                    self._at += len(name[:length])
                    return index
        raise ValueError(self._text)

    def milliseconds(self) -> int:
        found = self._found
        year = found.get("y", 1970)
        if found.get("G", 1) == 0:
            year = 1 - year
        if year < self._zone_since:
            raise ValueError(self._text)
        if "D" in found and not found.keys() & {"M", "d"}:
            days = _days(year, 1, 1) + found["D"] - 1
        else:
            days = _days(year, found.get("M", 1), found.get("d", 1))
        time_s = (self._hour() * 60 + found.get("m", 0)) * 60 + found.get("s", 0)
        return days * DAY_MS + time_s * 1000 + found.get("S", 0) - found.get("zone", 0)

    def _hour(self) -> int:
        found = self._found
        if "H" in found:
            return found["H"]
        if "k" in found:
            return 0 if found["k"] == 24 else found["k"]
        hour = found.get("K", found.get("h", 0))
        if "h" in found and hour == 12:
            hour = 0
        return hour + 12 * found.get("a", 0)


def _near_century(year: int) -> int:
    first = dt.datetime.now(dt.UTC).year - _CENTURY_BACK
    near = first - first % 100 + year
    return near if near >= first else near + 100


def simple_date_format() -> Check:
    """Return the check that a text is a pattern of `SimpleDateFormat`, as far as it is supported here."""

    def test(value: str) -> str | None:
        try:
            SimpleDateFormat(value)
        except ValueError as error:
            return f"not a SimpleDateFormat-compatible pattern: {error}"
        return None

    return Check(test, "pattern of SimpleDateFormat")
