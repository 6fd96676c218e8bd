"""What the worker is doing, in words, for answers that say why something takes long."""

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
        """Have the stage `what` last as long as the block."""
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
        """Return the sentence that time-outs carry."""
        with self._lock:
            if self._current:
                what, began = next(iter(self._current.values()))
                return f"The worker is currently {what}, which began at {began}."
            what, began, ended = self._last
            return (
                f"The last operation the worker completed was {what}, which began at {began} and completed at {ended}."
            )
