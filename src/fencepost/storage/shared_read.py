"""Shares one read between all callers that ask at about the same time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Calls `read` once for all callers that arrive during the previous read.

    The shared read starts after each of these calls, so its result covers everything written before them (E3). All
    callers that share a read get its errors.
    """

    def __init__(self, read: Callable[[float], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._next: Future[T] | None = None

    def __call__(self, timeout_s: float) -> T:
        """Return what `read(timeout_s)` returns. The first caller's time-out applies to all."""
        with self._lock:
            is_first = self._next is None
            if self._next is None:
                self._next = Future()
            shared = self._next
        if is_first:
            self._carry_out(shared, timeout_s)
        return shared.result()

    def _carry_out(self, shared: "Future[T]", timeout_s: float) -> None:
        with self._turn:
            with self._lock:
                self._next = None  # later callers may have written something that this read misses
            try:
                shared.set_result(self._read(timeout_s))
            except BaseException as error:
                shared.set_exception(error)
