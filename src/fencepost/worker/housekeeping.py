"""Runs checks every second."""

import logging
import threading
from collections.abc import Callable, Sequence

log = logging.getLogger(__name__)

_EVERY_S = 1.0


class Housekeeping:
    """Calls `chores` in order every second, in a separate thread, and logs the errors that they raise."""

    def __init__(self, chores: Sequence[Callable[[], None]]) -> None:
        self._chores = tuple(chores)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Make no more calls."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(_EVERY_S):
            for chore in self._chores:
                try:
                    chore()
                except Exception as error:
                    log.warning("housekeeping: %s", error)
