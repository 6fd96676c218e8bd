"""Following a log on a thread of its own, with a way to wait until it has caught up."""

import logging
import threading
import time
from collections.abc import Callable

from fencepost.kafka.log import Handler, LogReader, LogRecord

LOG = logging.getLogger(__name__)
_POLL_S = 0.2
_BACKOFF_S = 1.0


class LogFollower:
    """Hands every record of a log to `on_record`, and calls `on_batch` after each bunch of them.

    Both are called on the thread of `start` until that returns, then on the follower's own. They may neither raise
    nor wait: all followers of the log wait with them.
    """

    def __init__(self, reader: LogReader, on_record: Handler, on_batch: Callable[[], None]) -> None:
        self._reader = reader
        self._on_record = on_record
        self._on_batch = on_batch
        self._reached = threading.Condition()
        self._positions: dict[int, int] = {}
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, timeout_s: float) -> None:
        """Reads everything up to the end, then goes on by itself. After an error it may be called again."""
        self._reader.read_to_end(timeout_s, self._take)
        self._on_batch()
        self._publish()
        self._thread = threading.Thread(target=self._follow, name=f"follow-{self._reader.topic}", daemon=True)
        self._thread.start()

    def read_to_end(self, timeout_s: float) -> None:
        """Returns when everything that was written before this call has been handed over.

        ReadTimeoutError if that takes longer; whatever keeps the follower from reading, e.g. a lost permission.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("A follower cannot wait for itself: callbacks must not read to the end.")
        deadline = time.monotonic() + timeout_s
        ends = self._reader.ends(timeout_s)
        with self._reached:
            while behind := {p: end for p, end in ends.items() if self._positions.get(p, 0) < end}:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not self._reached.wait(left_s):
                    raise self._failure or self._reader.timed_out(behind, timeout_s)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                LOG.warning("The follower of topic %s did not end within %s s", self._reader.topic, timeout_s)
                return
        self._reader.close()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._reader.poll(self._take, _POLL_S):
                    self._on_batch()
                self._failure = None
            except Exception as error:  # Whatever it is, a follower that is gone would be worse.
                self._fail(error)
            self._publish()

    def _take(self, record: LogRecord) -> None:
        try:
            self._on_record(record)
        except Exception:  # A fault of ours in one record must not lose those that came with it.
            LOG.exception("Skipped %d/%d of topic %s", record.partition, record.offset, self._reader.topic)

    def _publish(self) -> None:
        with self._reached:
            self._positions = dict(self._reader.positions)
            self._reached.notify_all()

    def _fail(self, error: Exception) -> None:
        if str(error) != str(self._failure):
            LOG.exception("Following topic %s failed; trying again", self._reader.topic)
        self._failure = error
        self._stopping.wait(_BACKOFF_S)
