"""Waiting for a condition without a bare sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(predicate: Callable[[], T], *, within_s: float = 30.0, every_s: float = 0.05) -> T:
    """Call `predicate` until it returns something truthy, and return that.

    An exception counts as "not yet". After `within_s` seconds raises AssertionError that carries the last
    value or exception, so that a failing test says what it saw instead.
    """
    deadline = time.monotonic() + within_s
    last: object = None
    while True:
        try:
            value = predicate()
            if value:
                return value
            last = value
        except Exception as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s; last seen: {last!r}")
        time.sleep(every_s)
