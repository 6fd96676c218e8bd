"""Checks something outside at an interval, to see whether a plan still fits."""

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
LOG = logging.getLogger(__name__)


class Watch(Generic[T]):
    """Looks at an interval, on a thread of its own, and reports when the result changes.

    `look` is never called by two threads at once. If it fails, the previous result stays.
    """

    def __init__(
        self, name: str, look: Callable[[], T], interval_s: float | None, on_change: Callable[[], None]
    ) -> None:
        self._name = name
        self._look = look
        self._interval_s = interval_s  # None: only looks for the first `seen`
        self._on_change = on_change
        self._looking = threading.Lock()
        self._seen: list[T] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{name}", daemon=True)

    def start(self) -> None:
        if self._interval_s is not None:
            self._thread.start()

    def stop(self) -> None:
        """Stop looking; does not wait for a look in progress."""
        self._stopping.set()

    def seen(self) -> T:
        """Return the last result; looks now if there is none yet. Raises what `look` raises."""
        with self._looking:
            if not self._seen:
                self._seen = [self._look()]
            return self._seen[0]

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                has_changed = self._has_changed()
            except Exception as error:
                LOG.warning("looking at %s failed and will be retried in %g s: %s", self._name, self._interval_s, error)
                continue
            if has_changed and not self._stopping.is_set():
                self._on_change()

    def _has_changed(self) -> bool:
        """Look, and say whether the result differs from the last; False if nothing was seen before."""
        with self._looking:
            before, self._seen = self._seen, [self._look()]
            return bool(before) and before != self._seen
