"""Calls of authors' code that may never return: each has a limited time."""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

T = TypeVar("T")


AGAIN_S = 180.0
"""How long a key whose call hangs is not called again; so much longer each time that the next call hangs, too."""

_LONGEST = 5  # times as long


class HangingError(Exception):
    """A call has not returned in time, or an earlier one of the same key has not and still runs."""


@dataclass
class _Hanging:
    """A key whose calls hang: how often in a row, of which those that were made together are one time."""

    times: int = 0
    again_at: float = 0.0


def look_up_name(waiting: int | None) -> str:
    """Return the name of the thread that makes a call for one that waits for it."""
    return f"look-up for {waiting}"


class LimitedCalls:
    """Runs each call in a thread of its own, and leaves that alone when the time is over. Thread-safe.

    While a call hangs, others of its key are refused at once, so that few threads are lost to it. As it may hang for
    ever, on a connection that is dead for one, the call is made once more after a while, and rarer for some times.
    """

    def __init__(self, limit_s: float, again_s: float = AGAIN_S) -> None:
        self._limit_s = limit_s
        self._again_s = again_s
        self._lock = threading.Lock()
        self._hanging: dict[Hashable, _Hanging] = {}

    def call(self, key: Hashable, act: Callable[[], T]) -> T:
        """Return what `act` returns. Raises HangingError, and what `act` raises."""
        with self._lock:
            if (tried_again := self._hanging.get(key)) is not None:
                left_s = tried_again.again_at - time.monotonic()
                if left_s > 0:
                    raise HangingError(
                        f"an earlier look-up has not returned for more than {self._limit_s:g} s; the next one is made "
                        f"in {left_s:.0f} s"
                    )
                tried_again.again_at = time.monotonic() + 2 * self._limit_s  # this call ends before
        done: Future[T] = Future()
        name = look_up_name(threading.get_ident())
        threading.Thread(target=self._run, args=(key, act, done), name=name, daemon=True).start()
        try:
            return done.result(self._limit_s)
        except TimeoutError:
            with self._lock:
                if not done.done():
                    hanging = self._hanging.setdefault(key, _Hanging())
                    if hanging is tried_again or not hanging.times:
                        hanging.times += 1
                        hanging.again_at = time.monotonic() + min(hanging.times, _LONGEST) * self._again_s
                    raise HangingError(f"the look-up has not returned within {self._limit_s:g} s") from None
            return done.result()

    def _run(self, key: Hashable, act: Callable[[], T], done: "Future[T]") -> None:
        try:
            finish = partial(done.set_result, act())
        except BaseException as error:
            finish = partial(done.set_exception, error)
        with self._lock:
            finish()
            self._hanging.pop(key, None)  # the others may hang for ever
