"""Versions of plug-ins, what a config may require of them (KIP-891), and the shorter names of their classes.

Versions are compared as Maven compares them: `1.9 < 1.10`, `2.0-alpha < 2.0-rc1 < 2.0 < 2.0.1`, `1 = 1.0 = 1.0-final`.
A requirement is a range (`[1.0,2.0)`, `[1.0,)`, `(,1.0],[1.2,)`), or a version, which means exactly this one.
"""

import itertools
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cmp_to_key, lru_cache
from typing import NamedTuple

from fencepost.config.check import Check, parsed_by


def answers_to(full: str, name: str, suffix: str) -> bool:
    """Say whether a config may call a class `name`: in full, without its package, or without `suffix` as well.

    These are Kafka Connect's aliases. `suffix` is that of the plug-in's kind, such as `Connector`.
    """
    short = full.rpartition(".")[2]
    return name in (full, short, short.removesuffix(suffix))


def matches(name: str, pattern: str) -> bool:
    """Say whether a name matches: `*` stands for any characters, `?` for one. Brackets are themselves."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


LATEST = "latest"
"""The requirement that any version meets; of several, the newest is used, as without a requirement."""

UNDEFINED = "undefined"
"""The version of a plug-in that has none."""

_PARTS = re.compile(r"([.-]?)(\d+|[^\d.-]+|(?=[.-]|$))")
_SHORT = {"a": "alpha", "b": "beta", "m": "milestone"}  # if a number follows at once
_SAME = {"cr": "rc", "ga": "", "final": "", "release": ""}
_RANKS = {"alpha": 0, "beta": 1, "milestone": 2, "rc": 3, "snapshot": 4, "": 5, "sp": 6}
_OTHER_RANK = 7
_NO_SETS = "Only fully-qualified sets allowed in multiple set scenario"
_SET = re.compile(r"([\[(])([^\[\]()]*)([\])])")


class _Part(NamedTuple):
    """A number or a word of a version, and whether it was separated by a point."""

    has_point: bool
    number: int
    word: str | None  # None: a number

    @property
    def is_null(self) -> bool:
        return not self.number and not self.word

    @property
    def order(self) -> tuple[int, int, int, str]:
        """Words come before numbers after a hyphen, and these before numbers after a point."""
        if self.word is None:
            return (2 if self.has_point else 1, self.number, 0, "")
        return (0, 0, _RANKS.get(self.word, _OTHER_RANK), self.word)


@lru_cache(maxsize=256)
def _parts(version: str) -> tuple[_Part, ...]:
    found: list[_Part] = []
    matches = [one for one in _PARTS.finditer(version.lower()) if one.group()]
    for position, match in enumerate(matches):
        separator, text = match.groups()
        following = matches[position + 1] if position + 1 < len(matches) else None
        if not text.isdecimal():
            touches_number = following is not None and not following[1] and following[2].isdecimal()
            word = _SHORT.get(text, text) if touches_number else text
            part = _Part(separator == ".", 0, _SAME.get(word, word)) if text else _Part(separator == ".", 0, None)
        else:
            part = _Part(separator == "." or position == 0, int(text), None)
        if not part.has_point or part.word is not None:
            _trim(found)
        found.append(part)
    _trim(found)
    return tuple(found)


def _trim(parts: list[_Part]) -> None:
    """Remove the zeros and empty words at the end, which mean nothing."""
    while parts and parts[-1].is_null:
        parts.pop()


def compared(one: str, other: str) -> int:
    """Return a number below, at or above 0, as `one` is older than, equal to or newer than `other`."""
    left, right = _parts(one), _parts(other)
    for position in range(max(len(left), len(right))):
        a = left[position] if position < len(left) else None
        b = right[position] if position < len(right) else None
        first, second = (a or _null(b)).order, (b or _null(a)).order
        if first != second:
            return -1 if first < second else 1
    return 0


def _null(like: _Part | None) -> _Part:
    """Return what stands for a missing part beside `like`."""
    assert like is not None
    return _Part(like.has_point, 0, None if like.word is None else "")


def in_order(versions: Iterable[str]) -> list[str]:
    """Return the versions, oldest first."""
    return sorted(versions, key=cmp_to_key(compared))


class _Range(NamedTuple):
    """Versions between two limits; None is no limit."""

    low: str | None
    has_low: bool
    high: str | None
    has_high: bool

    def has(self, version: str) -> bool:
        if self.low is not None and compared(version, self.low) < (0 if self.has_low else 1):
            return False
        return self.high is None or compared(version, self.high) <= (0 if self.has_high else -1)


class VersionRequirement:
    """What a config requires of a plug-in's version."""

    def __init__(self, text: str) -> None:
        """Raises ValueError, with the reason, if the text is neither a version nor a range."""
        given = text.strip()
        if not given:
            raise ValueError("must not be empty")
        is_bare = not given.startswith(("[", "("))
        if is_bare and any(sign in given for sign in "[]()"):
            raise ValueError(f"{_NO_SETS}: {text}")
        self._text = f"[{given}]" if is_bare else given
        self._ranges = tuple(_ranges(self._text))

    def allows(self, version: str | None) -> bool:
        """Return whether a plug-in of this version may be used; one without a version never may."""
        return version is not None and any(one.has(version) for one in self._ranges)

    def __str__(self) -> str:
        return self._text


def requirement_of(text: str | None) -> VersionRequirement | None:
    """Return the requirement of a config's value; None if any version will do. Raises ValueError with the reason."""
    return None if text is None or text.strip() == LATEST else VersionRequirement(text)


def version_requirement() -> Check:
    """Return a check for a version or a range of versions."""
    return parsed_by(requirement_of, f"a version, a range such as [1.0,2.0), or {LATEST}")


def _ranges(text: str) -> list[_Range]:
    found: list[_Range] = []
    at = 0
    while at < len(text):
        match = _SET.match(text, at)
        if match is None:
            raise ValueError(f"{'Unbounded range' if text[at] in '[(' else _NO_SETS}: {text}")
        found.append(_range(match))
        at = match.end()
        if at < len(text) and text[at] == ",":
            at += 1
    for before, after in itertools.pairwise(found):
        if before.high is None or after.low is None or compared(after.low, before.high) < 0:
            raise ValueError(f"Ranges overlap: {text}")
    return found


def _range(match: re.Match[str]) -> _Range:
    opening, inner, closing = match.groups()
    low, comma, high = (part.strip() for part in inner.partition(","))
    if not comma:
        if (opening, closing) != ("[", "]") or not low:
            raise ValueError(f"Single version must be surrounded by []: {match.group()}")
        return _Range(low, True, low, True)
    is_open = (opening, closing) != ("[", "]")
    if low and high and compared(high, low) < (1 if is_open else 0):
        raise ValueError(f"Range defies version ordering: {match.group()}")
    return _Range(low or None, opening == "[", high or None, closing == "]")
