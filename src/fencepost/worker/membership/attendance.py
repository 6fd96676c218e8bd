"""A worker's records about itself in the config topic: it is present, has ended tasks, or leaves."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from fencepost.cluster.running import Start
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.storage import records
from fencepost.storage.config_topic import TopicWriter
from fencepost.storage.records import Encoded

log = logging.getLogger(__name__)

_WRITE_S = 60.0
_LEAVE_S = 5.0
_RETRY_S = 1.0


class Attendance:
    """Writes these records, which any worker may write outside of transactions. Thread-safe."""

    def __init__(self, writer: TopicWriter, url: str, incarnation: str, stopping: threading.Event) -> None:
        self._writer = writer
        self._url = url
        self._incarnation = incarnation
        self._stopping = stopping
        self._lock = threading.Lock()
        self._predecessor: str | None = None
        self._is_announced = False
        self._is_ready = False
        self._again: Future[None] = Future()  # of the newest repeated announcement
        self._again.set_result(None)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="attendance")

    def announce(self, newest: str | None) -> None:
        """Announce this incarnation, which may then be assigned work. `newest` is the newest one so far at this
        address.

        Raises KafkaUnavailableError; announcing again is safe.
        """
        with self._lock:
            if not self._is_announced:
                self._predecessor, self._is_announced = newest, True
            is_ready = self._is_ready
        self._writer.write([self._announcement(is_ready)], _WRITE_S)

    def is_followed_by(self, newest: str | None) -> bool:
        """Say whether the newest process at this address has announced itself after this one.

        A process that has not announced itself yet has no successor: it sees its predecessor there.
        """
        with self._lock:
            return self._is_announced and newest not in (None, self._incarnation, self._predecessor)

    def keep_announced(self, newest: str | None) -> None:
        """Announce this incarnation again if `newest` at this address is None, or its predecessor.

        The predecessor's last record, its announcement or (of an older version) its leave, was then delivered late, and
        work would be assigned to a process that is gone, or to none.
        """
        with self._lock:
            is_hidden = self._is_announced and newest != self._incarnation and newest in (None, self._predecessor)
            if not is_hidden or not self._again.done():
                return
            log.warning(
                "a record of this worker's predecessor was delivered late and took its place: announcing it again"
            )
            is_ready = self._is_ready
            self._again = self._soon(lambda: self._announcement(is_ready))

    def be_ready(self) -> None:
        """Announce soon that this worker can run tasks."""
        with self._lock:
            is_new, self._is_ready = not self._is_ready, True
            is_due = is_new and self._is_announced
        if is_due:
            self._soon(lambda: self._announcement(True))

    def announce_ended(self, starts: Sequence[Start]) -> None:
        """Announce soon that these starts of tasks have ended here."""
        self._soon(lambda: records.tasks_stopped(self._url, self._incarnation, starts))

    def leave(self) -> None:
        """Announce that this worker has ended its tasks and leaves. Waits for records in progress; never raises."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._is_announced:
            try:
                self._writer.write([records.worker_left(self._url, self._incarnation)], _LEAVE_S)
            except Exception as error:
                log.warning(
                    "the cluster will notice only after the session timeout that this worker has left: %s", error
                )

    def _announcement(self, is_ready: bool) -> Encoded:
        return records.worker_incarnation(self._url, self._incarnation, is_ready=is_ready)

    def _soon(self, record: Callable[[], Encoded]) -> "Future[None]":
        def write() -> None:
            while not self._stopping.is_set():
                try:
                    self._writer.write([record()], _WRITE_S)
                    return
                except KafkaUnavailableError as error:
                    log.warning("%s; retrying", error)
                    self._stopping.wait(_RETRY_S)

        return self._pool.submit(write)
