"""The stage of a worker, whether it has to end, and why."""

import logging
import threading
from collections.abc import Callable

from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.worker.progress import Progress

log = logging.getLogger(__name__)

_RETRY_S = 1.0


class WorkerLife:
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
        """Call `act` until it succeeds or the worker stops, while Kafka cannot be reached; the log and /health show
        that.
        """
        with self.progress.doing(stage):
            while not self.stopping.is_set():
                try:
                    act()
                    return
                except KafkaUnavailableError as error:
                    log.warning("%s: %s; retrying", stage, error)
                    self.stopping.wait(_RETRY_S)
