"""Calls of authors' code that may never return: each has a limited time."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

T = TypeVar("T")


class HangingError(Exception):
    """A call has not returned in time, or an earlier one of the same key has not and still runs."""


def look_up_name(waiting: int | None) -> str:
    """Return the name of the thread that makes a call for one that waits for it."""
    return f"look-up for {waiting}"


class LimitedCalls:
    """Runs each call in a thread of its own, and leaves that alone when the time is over. Thread-safe.

    While a call hangs, others of its key are refused at once, so that no more threads are lost to it.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._hanging: dict[Hashable, object] = {}

    def call(self, key: Hashable, act: Callable[[], T]) -> T:
        """Return what `act` returns. Raises HangingError, and what `act` raises."""
        with self._lock:
            if key in self._hanging:
                raise HangingError(f"an earlier look-up has not returned for more than {self._limit_s:g} s")
        done: Future[T] = Future()
        name = look_up_name(threading.get_ident())
        threading.Thread(target=self._run, args=(key, act, done), name=name, daemon=True).start()
        try:
            return done.result(self._limit_s)
        except TimeoutError:
            with self._lock:
                if not done.done():
                    self._hanging[key] = done
                    raise HangingError(f"the look-up has not returned within {self._limit_s:g} s") from None
            return done.result()

    def _run(self, key: Hashable, act: Callable[[], T], done: "Future[T]") -> None:
        try:
            finish = partial(done.set_result, act())
        except BaseException as error:
            finish = partial(done.set_exception, error)
        with self._lock:
            finish()
            if self._hanging.get(key) is done:
                del self._hanging[key]
