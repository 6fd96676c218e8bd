"""One read for all who ask for one at about the same time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Calls `read`, once for everybody who comes while the read before is under way.

    A read that a call shares was begun after the call: what it returns covers all that was written before (E3).
    Errors of `read` reach everybody who shares it.
    """

    def __init__(self, read: Callable[[float], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._next: Future[T] | None = None

    def __call__(self, timeout_s: float) -> T:
        """Return what `read(timeout_s)` returns; whoever comes first sets the time-out for all."""
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
                self._next = None  # whoever comes from here on may have written something that this read misses
            try:
                shared.set_result(self._read(timeout_s))
            except BaseException as error:
                shared.set_exception(error)
