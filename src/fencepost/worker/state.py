"""The stage of a worker, in words for answers that explain a delay; whether it has to end, and why."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from fencepost.kafka.errors import KafkaUnavailableError

log = logging.getLogger(__name__)

RETRY_S = 1.0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def repeat(
    name: str,
    every_s: float,
    act: Callable[[], object],
    stopping: threading.Event,
    *,
    begins_now: bool = False,
    level: int = logging.WARNING,
) -> None:
    """Call `act` every few seconds, in a thread of this name, until `stopping` is set. Its errors are logged."""

    def run() -> None:
        pause_s = 0.0 if begins_now else every_s
        while not stopping.wait(pause_s):
            pause_s = every_s
            try:
                act()
            except Exception as error:
                log.log(level, "%s: %s", name, error)

    threading.Thread(target=run, name=name, daemon=True).start()


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


class WorkerState:
    """Shared by the parts of one worker. Any thread."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.stopping = threading.Event()
        self._error: Exception | None = None

    @property
    def error(self) -> Exception | None:
        """Return why this worker has to end: wrong settings, wrong topics, or another process in its place."""
        return self._error

    def fail(self, error: Exception) -> None:
        """Make the worker end: it cannot start, or cannot continue."""
        if not self.stopping.is_set():
            log.error("the worker %s: %s", "has to end" if self.progress.is_started else "cannot start", error)
            self._error = self._error or error

    def retry(self, stage: str, act: Callable[[], object]) -> None:
        """Call `act` until it succeeds or the worker stops, while Kafka cannot be reached; /health shows the stage."""
        with self.progress.doing(stage):
            while not self.stopping.is_set():
                try:
                    act()
                    return
                except KafkaUnavailableError as error:
                    log.warning("%s: %s; retrying", stage, error)
                    self.stopping.wait(RETRY_S)
