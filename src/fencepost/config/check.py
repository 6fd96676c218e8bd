"""Checks on a parsed setting value. A check returns None, or a reason that completes
"Invalid value V for configuration K: <reason>"; its text describes the valid values on reference pages."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """`test(value)` returns the reason why a value is wrong, or None; `text` says what is right."""

    test: Callable[[Any], str | None]
    text: str
    recommended: tuple[str, ...] = ()

    def __call__(self, value: Any) -> str | None:
        return self.test(value)


def at_least(low: float) -> Check:
    """A number of `low` or more."""
    return Check(lambda v: None if v >= low else f"Value must be at least {low}", f"[{low},...]")


def between(low: float, high: float) -> Check:
    """A number from `low` to `high`, both included."""

    def test(value: Any) -> str | None:
        if value < low:
            return f"Value must be at least {low}"
        return None if value <= high else f"Value must be no more than {high}"

    return Check(test, f"[{low},...,{high}]")


def one_of(*choices: str, ignore_case: bool = True) -> Check:
    """One of the words; case does not matter unless told."""
    known = {c.lower() for c in choices} if ignore_case else set(choices)

    def test(value: Any) -> str | None:
        text = str(value).lower() if ignore_case else str(value)
        return None if text in known else f"String must be one of: {', '.join(choices)}"

    return Check(test, f"[{', '.join(choices)}]", recommended=choices)


def non_empty() -> Check:
    """A text, or list, with something in it."""
    return Check(lambda v: None if v else "must not be empty", "non-empty")


def matches_regex() -> Check:
    """A text that is a valid regular expression."""

    def test(value: Any) -> str | None:
        try:
            re.compile(value)
        except re.error as error:
            return f"not a regular expression: {error}"
        return None

    return Check(test, "valid regex")
