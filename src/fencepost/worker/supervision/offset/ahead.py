"""Reads offsets ahead of time, so that a start here, such as after the loss of a worker, waits only for new ones."""

import logging
import threading

from fencepost.storage.offset_view import OffsetTopics

log = logging.getLogger(__name__)

_READ_S = 60.0
_EVERY_S = 10.0


class OffsetsAhead:
    """Follows the topics from which offsets were read, in a thread of its own."""

    def __init__(self, topics: OffsetTopics, stopping: threading.Event) -> None:
        self._topics = topics
        self._stopping = stopping
        self._is_read = threading.Event()

    def start(self) -> None:
        """Read everything, and then every ten seconds what is new."""
        threading.Thread(target=self._run, name="offsets", daemon=True).start()

    def wait_until_read(self, timeout_s: float) -> bool:
        """Wait for the first read. Returns whether it has ended, whether or not it succeeded."""
        return self._is_read.wait(timeout_s)

    def _run(self) -> None:
        while True:
            try:
                self._topics.catch_up(_READ_S)
            except Exception as error:  # a start that needs the offsets retries, and reports the error
                log.debug("offsets: %s", error)
            self._is_read.set()
            if self._stopping.wait(_EVERY_S):
                return
