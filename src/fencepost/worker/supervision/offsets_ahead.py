"""Reads offsets before anybody asks: a start here, perhaps after its last worker was lost, waits for no old ones."""

import logging
import threading

from fencepost.storage.offset_view import OffsetTopics

log = logging.getLogger(__name__)

_READ_S = 60.0
_EVERY_S = 10.0


class OffsetsAhead:
    """Reads on in the topics that offsets were read from, in a thread of its own."""

    def __init__(self, topics: OffsetTopics, stopping: threading.Event) -> None:
        self._topics = topics
        self._stopping = stopping
        self._is_read = threading.Event()

    def start(self) -> None:
        """Read all there is, and then every ten seconds what has come since."""
        threading.Thread(target=self._run, name="offsets", daemon=True).start()

    def wait_until_read(self, timeout_s: float) -> bool:
        """Wait for the first read. Returns whether it is over, well or not."""
        return self._is_read.wait(timeout_s)

    def _run(self) -> None:
        while True:
            try:
                self._topics.catch_up(_READ_S)
            except Exception as error:  # whoever needs them tries again, and tells
                log.debug("offsets: %s", error)
            self._is_read.set()
            if self._stopping.wait(_EVERY_S):
                return
