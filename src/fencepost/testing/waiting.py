"""Waits for conditions."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SHORTEST_S, _LONGEST_S = 0.05, 0.25
_SHARE = 0.1
_STILL_S = 1.0  # a process that sleeps for so much longer than it asked for did not run
_CROWD = 4.0  # processes that want each core in an ordinary test run
_MOST_STRETCH = 4.0  # how many times as long a limit may become


def eventually(predicate: Callable[[], T], *, within_s: float = 30.0, every_s: float | None = None) -> T:
    """Call `predicate` until it returns something truthy, and return that.

    An exception counts as "not yet". After `within_s` seconds raises AssertionError that carries the last
    value or exception, so that a failing test says what it saw instead. Without `every_s`, the pause between two
    calls is a tenth of the time that has passed, 50 to 250 ms.

    >>> from fencepost.testing import eventually
    >>> found = iter([None, None, "there"])
    >>> eventually(lambda: next(found), within_s=5)
    'there'

    There is one last call when the time is over. Time in which this process did not run does not count, and the limit
    is up to four times as long on a machine whose cores are wanted by more than four processes each.
    """
    began = time.monotonic()
    last: object = None
    while True:
        waited_s = time.monotonic() - began
        try:
            value = predicate()
            if value:
                return value
            last = value
        except Exception as error:  # of whatever kind: what is awaited may not be there yet
            last = error
        wanted = os.getloadavg()[0] / (os.cpu_count() or 1)
        if waited_s > within_s * min(max(1.0, wanted / _CROWD), _MOST_STRETCH):
            raise AssertionError(f"not within {within_s} s; last seen: {last!r}")
        pause_s = min(max(_SHORTEST_S, waited_s * _SHARE), _LONGEST_S) if every_s is None else every_s
        began += _stood_still_s(pause_s)


def _stood_still_s(pause_s: float) -> float:
    """Sleep; return for how long the machine, or a debugger, kept this process from waking up."""
    asleep = time.monotonic()
    time.sleep(pause_s)
    over_s = time.monotonic() - asleep - pause_s
    return over_s if over_s > _STILL_S else 0.0
