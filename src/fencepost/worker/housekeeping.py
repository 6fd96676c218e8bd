"""Something small, every second."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

_EVERY_S = 1.0


class Housekeeping:
    """Calls `act` every second in a thread of its own; what it raises is logged."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(_EVERY_S):
            try:
                self._act()
            except Exception as error:
                log.warning("housekeeping: %s", error)
