"""What the worker is currently doing, in words, for answers that explain a delay."""

import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Progress:
    """The newest stage. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: dict[int, tuple[str, str]] = {}
        self._last = ("starting", _now(), _now())
        self.is_started = False

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Make `what` the current stage for the duration of the block."""
        key, began = threading.get_ident(), _now()
        with self._lock:
            self._current[key] = (what, began)
        try:
            yield
        finally:
            with self._lock:
                self._current.pop(key, None)
                self._last = (what, began, _now())

    def described(self) -> str:
        """Return the sentence for timeout messages."""
        with self._lock:
            if self._current:
                what, began = next(iter(self._current.values()))
                return f"The worker is currently {what}, which began at {began}."
            what, began, ended = self._last
            return (
                f"The last operation the worker completed was {what}, which began at {began} and completed at {ended}."
            )
