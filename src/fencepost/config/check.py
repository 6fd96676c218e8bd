"""Checks on a parsed setting value. A check returns None, or a reason that completes
"Invalid value V for configuration K: <reason>"; its text describes the valid values on reference pages."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fencepost.secret.redaction import redacted


@dataclass(frozen=True)
class Check:
    """`test(value)` returns the reason why a value is wrong, or None; `text` describes the valid values."""

    test: Callable[[Any], str | None]
    text: str
    recommended: tuple[str, ...] = ()

    def __call__(self, value: Any) -> str | None:
        return self.test(value)


def at_least(low: float) -> Check:
    """Return a check for a number of `low` or more.

    >>> from fencepost.api import at_least, setting
    >>> size = setting("batch.size", default=100, check=at_least(1))
    >>> size.check(0)
    'Value must be at least 1'
    """
    return Check(lambda v: None if v >= low else f"Value must be at least {low}", f"[{low},...]")


def between(low: float, high: float) -> Check:
    """Return a check for a number from `low` to `high`, both included.

    >>> from fencepost.api import between
    >>> between(0, 1)(2)
    'Value must be no more than 1'
    """

    def test(value: Any) -> str | None:
        if value < low:
            return f"Value must be at least {low}"
        return None if value <= high else f"Value must be no more than {high}"

    return Check(test, f"[{low},...,{high}]")


def one_of(*choices: str, ignore_case: bool = True) -> Check:
    """Return a check for one of the words; by default, case does not matter.

    >>> from fencepost.api import one_of
    >>> one_of("none", "all")("ALL") is None
    True
    """
    known = {c.lower() for c in choices} if ignore_case else set(choices)
    shown = [c.upper() for c in choices] if ignore_case else choices  # in the form that Kafka shows
    expected = f"one of{' (case insensitive)' if ignore_case else ''}: {', '.join(shown)}"

    def test(value: Any) -> str | None:
        text = str(value).lower() if ignore_case else str(value)
        return None if text in known else f"String must be {expected}"

    return Check(test, f"[{', '.join(choices)}]", recommended=choices)


def non_empty() -> Check:
    """Return a check for a text or list that is not empty.

    >>> from fencepost.api import non_empty
    >>> non_empty()("")
    'must not be empty'
    """
    return Check(lambda v: None if v else "must not be empty", "non-empty")


def distinct() -> Check:
    """Return a check for a list that has members, none of them twice and none of them empty."""

    def test(values: list[str]) -> str | None:
        if not values:
            return "must not be empty"
        return None if len(set(values)) == len(values) and all(values) else "must have each name once, and no empty one"

    return Check(test, "non-empty list of distinct values")


def matches_regex() -> Check:
    """Return a check for a text that is a valid regular expression.

    >>> from fencepost.api import matches_regex
    >>> matches_regex()("orders-.*") is None
    True
    """

    def test(value: Any) -> str | None:
        try:
            re.compile(value)
        except re.error as error:
            return f"not a regular expression: {error}"
        return None

    return Check(test, "valid regex")


def at_least_or_minus_one(low: float, reason: str) -> Check:
    """Return a check for a number of `low` or more, or -1 for "the broker's default"."""
    return Check(lambda v: None if v == -1 or v >= low else reason, f"[{low},...] or -1")


def unique(text: str) -> Check:
    """Return a check for a list without duplicates."""
    return Check(lambda v: None if len(set(v)) == len(v) else "Duplicate alias provided.", text)


def each(check: Check) -> Check:
    """Return a check for a list whose every item passes `check`."""

    def test(values: Any) -> str | None:
        return next((reason for v in values if (reason := check(v)) is not None), None)

    return Check(test, f"list of {check.text}")


def parsed_by(parse: Callable[[Any], object], text: str) -> Check:
    """Return a check for a value that `parse` accepts; it raises ValueError, with the reason, for any other."""

    def test(value: Any) -> str | None:
        try:
            parse(value)
        except ValueError as error:
            return str(error)
        return None

    return Check(test, text)


def no_control_chars() -> Check:
    """Return a check for a text that is not empty and has no ISO control characters: the name of a connector."""

    def test(value: str) -> str | None:
        if not value:
            return "String may not be empty"
        found = [str(ord(c)) for c in value if ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F]
        if found:
            return f"String may not contain control sequences but had the following ASCII chars: {', '.join(found)}"
        return None

    return Check(test, "non-empty string without ISO control characters")


def unset_or(check: Check) -> Check:
    """Return a check that an empty value, which stands for the default, passes."""
    return Check(lambda value: check.test(value) if value else None, f"{check.text}, or empty")


_TOPIC_CHARACTERS = re.compile(r"[a-zA-Z0-9._-]+")
LONGEST_TOPIC = 249


def topic_name() -> Check:
    """Return a check for a valid name of a Kafka topic.

    >>> from fencepost.api import topic_name
    >>> topic_name()("a topic")
    "a topic name may only hold ASCII letters and digits, '.', '_' and '-'"
    """

    def test(value: str) -> str | None:
        if not value:
            return "a topic name must not be empty"
        if value in (".", ".."):
            return "a topic name must not be '.' or '..'"
        if len(value) > LONGEST_TOPIC:
            return f"a topic name must not be longer than {LONGEST_TOPIC} characters, this one has {len(value)}"
        if _TOPIC_CHARACTERS.fullmatch(value) is None:
            return "a topic name may only hold ASCII letters and digits, '.', '_' and '-'"
        return None

    return Check(test, "a legal topic name")


T = TypeVar("T")


class ConfigError(ValueError):
    """One or more settings are wrong. `messages` has one text per fault, each naming its key (E12).

    Passwords in URLs and in JAAS configs are hidden, as a text may show the value that is wrong (E11).

    >>> from fencepost.api import Config, ConfigError, setting
    >>> class FeedConfig(Config):
    ...     retries: int = setting("retries")
    >>> try:
    ...     FeedConfig({"retries": "many"})
    ... except ConfigError as error:
    ...     print(error.messages[0])
    Invalid value many for configuration retries: Not a number of type LONG
    """

    def __init__(self, messages: str | Sequence[str]) -> None:
        given = (messages,) if isinstance(messages, str) else messages
        self.messages: tuple[str, ...] = tuple(map(redacted, given))
        super().__init__("\n".join(self.messages))


def collected(make: Callable[[], T], otherwise: T, faults: list[str]) -> T:
    """Return what `make` returns; if it raises ConfigError, add the faults to `faults`, and return `otherwise`."""
    try:
        return make()
    except ConfigError as error:
        faults += error.messages
        return otherwise
