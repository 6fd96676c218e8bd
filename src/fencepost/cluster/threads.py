"""Threads that run calls: those of one key in order, and those of a loop one after another.

A call that may wait for a long time is run by key, so that one connector's work never delays another's.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

TICK_S = 0.25
_TOGETHER = 32  # calls of one key, such as a connector; those of other keys never wait for them


class ThreadsByKey:
    """Runs at most `most` calls of one key at a time, started in order. Keys are independent of each other.

    Threads are created on demand and end when their key has no more calls. They do not keep the process alive.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        self._busy: dict[Hashable, int] = {}
        self._is_stopped = False

    def submit(self, key: Hashable, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Run a call in a thread. Never waits. After `stop` the future is cancelled."""
        outcome: Future[T] = Future()
        with self._lock:
            if self._is_stopped:
                outcome.cancel()
                return outcome
            self._waiting.setdefault(key, deque()).append((outcome, lambda: act(*args, **kwargs)))
            if self._busy.get(key, 0) < self._most:
                self._busy[key] = self._busy.get(key, 0) + 1
                threading.Thread(target=self._work, args=(key,), name=f"{self._name}-{key}", daemon=True).start()
        return outcome

    def stop(self) -> None:
        """Cancel calls that have not begun. Running calls are not stopped."""
        with self._lock:
            self._is_stopped = True
            waiting, self._waiting = self._waiting, {}
        for outcome, _ in (each for queued in waiting.values() for each in queued):
            outcome.cancel()

    def _work(self, key: Hashable) -> None:
        while (taken := self._take(key)) is not None:
            outcome, act = taken
            if not outcome.set_running_or_notify_cancel():
                continue
            try:
                outcome.set_result(act())
            except BaseException as error:
                outcome.set_exception(error)

    def _take(self, key: Hashable) -> "tuple[Future[Any], Callable[[], Any]] | None":
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting:
                return waiting.popleft()
            self._waiting.pop(key, None)
            self._busy[key] -= 1
            if not self._busy[key]:
                del self._busy[key]
            return None


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
