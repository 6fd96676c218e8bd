"""Waiting for a condition without a bare sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SHORTEST_S, _LONGEST_S = 0.05, 0.25
_SHARE = 0.1


def eventually(predicate: Callable[[], T], *, within_s: float = 30.0, every_s: float | None = None) -> T:
    """Call `predicate` until it returns something truthy, and return that.

    An exception counts as "not yet". After `within_s` seconds raises AssertionError that carries the last
    value or exception, so that a failing test says what it saw instead. Unless `every_s` says how often, it is asked
    more rarely the longer that takes: a tenth of the time that has passed lies in between, 50 to 250 ms.
    """
    began = time.monotonic()
    last: object = None
    while True:
        try:
            value = predicate()
            if value:
                return value
            last = value
        except Exception as error:
            last = error
        waited_s = time.monotonic() - began
        if waited_s > within_s:
            raise AssertionError(f"not within {within_s} s; last seen: {last!r}")
        time.sleep(_pause_s(waited_s) if every_s is None else every_s)


def _pause_s(waited_s: float) -> float:
    return min(max(_SHORTEST_S, waited_s * _SHARE), _LONGEST_S)
