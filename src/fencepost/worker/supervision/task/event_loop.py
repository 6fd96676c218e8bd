"""The supervisor's thread, and the threads for work that would make it wait."""

import logging
import queue
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

from fencepost.cluster.threads_by_key import ThreadsByKey

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

TICK_S = 0.25
_TOGETHER = 32  # calls of one key, such as a connector; those of other keys never wait for them


class EventLoop:
    """Runs events one after another in a thread, and a tick whenever none is queued. Any thread may use it."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._events: queue.Queue[Callable[[], None]] = queue.Queue()
        self._is_over = threading.Event()
        self._threads = ThreadsByKey(_TOGETHER, "prepare")
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, event: Callable[[], None]) -> None:
        self._events.put(event)

    def submit(self, key: Hashable, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Run a call that may wait in a thread of its key."""
        return self._threads.submit(key, act, *args, **kwargs)

    def end(self) -> None:
        """End after the current event."""
        self._is_over.set()

    def wait(self, timeout_s: float) -> None:
        """Wait for the end. Calls that have not begun by then are cancelled."""
        self._is_over.wait(timeout_s)
        self._threads.stop()

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                event: Callable[[], None] = self._events.get(timeout=TICK_S)
            except queue.Empty:
                event = self._tick
            try:
                event()
                if self._events.empty():
                    self._tick()
            except BaseException:
                log.exception("the supervisor had an unexpected error")
