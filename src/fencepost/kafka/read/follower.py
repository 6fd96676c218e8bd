"""Following a log on threads of its own, with a way to wait until it has caught up."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.read.log import Handler, LogReader, LogRecord

LOG = logging.getLogger(__name__)
_POLL_S = 0.2
_BACKOFF_S = 1.0
_LOOK_EVERY_S = 10.0
_LOOK_S = 2.0
_LINGER_S = 0.1  # whoever waits for the end of a log often waits for it again


class LogFollower:
    """Hands every record of a log to `on_record`, once and in order, and calls `on_batch` after each bunch of them.

    Both are called on the thread of `start` until that returns, then on the follower's own threads, never on two at
    once. They may neither raise nor wait: all followers of the log wait with them.

    `reader` waits at the broker for what comes: it costs little, gets records at once, and learns late that the log
    ends behind them. Where the log has transactions, which end in a record that nobody sees, `end_reader` looks for the
    end while somebody waits for it, and rests otherwise.

    Partitions that the topic gets are followed too: at the latest some seconds after they were added, and at once where
    somebody waits for the end.
    """

    def __init__(
        self,
        reader: LogReader,
        on_record: Handler,
        on_batch: Callable[[], None],
        end_reader: LogReader | None = None,
    ) -> None:
        self._reader = reader
        self._end_reader = end_reader
        self._on_record = on_record
        self._on_batch = on_batch
        self._handing_over = threading.Lock()
        self._next: dict[int, int] = {}
        self._is_batch_open = False
        self._reached = threading.Condition()
        self._positions: dict[int, int] = {}
        self._wanted: dict[int, int] = {}
        self._waiting = 0
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, timeout_s: float) -> None:
        """Read everything up to the end, then goes on by itself. After an error it may be called again."""
        first = self._end_reader or self._reader
        first.read_to_end(timeout_s, self._take)
        self._is_batch_open = True  # there is a first one in any case
        self._finish_batch()
        self._publish(first.positions)
        if first is not self._reader:
            first.rest()
            self._reader.go_on_at(first.positions)
        name = f"follow-{self._reader.topic}"
        self._threads = [threading.Thread(target=self._follow, name=name, daemon=True)]
        if self._end_reader is not None:
            look = threading.Thread(
                target=self._look_for_end, args=(self._end_reader,), name=f"{name}-end", daemon=True
            )
            self._threads.append(look)
        for thread in self._threads:
            thread.start()

    def read_to_end(self, timeout_s: float) -> None:
        """Return when everything that was written before this call has been handed over.

        ReadTimeoutError if that takes longer; whatever keeps the follower from reading, e.g. a lost permission.
        """
        if threading.current_thread() in self._threads:
            raise RuntimeError("A follower cannot wait for itself: callbacks must not read to the end.")
        deadline = time.monotonic() + timeout_s
        ends = self._reader.ends(timeout_s)
        with self._reached:
            if not self._unread(ends):
                return
            self._wanted = {p: max(end, self._wanted.get(p, 0)) for p, end in ends.items()}
            self._waiting += 1
            self._reached.notify_all()
            try:
                while unread := self._unread(ends):
                    left_s = deadline - time.monotonic()
                    if left_s <= 0 or not self._reached.wait(left_s):
                        raise self._failure or self._reader.timed_out(unread, timeout_s)
            finally:
                self._waiting -= 1

    def read_past(self, partition: int, offset: int, timeout_s: float) -> None:
        """Return when the record there has been handed over: for one that is known to be committed. Asks nobody.

        ReadTimeoutError if that takes longer; whatever keeps the follower from reading.
        """
        with self._reached:
            if not self._reached.wait_for(lambda: self._positions.get(partition, 0) > offset, timeout_s):
                raise self._failure or self._reader.timed_out({partition: offset + 1}, timeout_s)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Idempotent."""
        self._stopping.set()
        with self._reached:
            self._reached.notify_all()
        for thread in self._threads:
            thread.join(timeout_s)
            if thread.is_alive():
                LOG.warning("The follower of topic %s did not end within %s s", self._reader.topic, timeout_s)
                return
        self._reader.close()
        if self._end_reader is not None:
            self._end_reader.close()

    # the threads

    def _follow(self) -> None:
        looked_s = time.monotonic()
        while not self._stopping.is_set():
            try:
                if time.monotonic() > looked_s + _LOOK_EVERY_S:
                    looked_s = time.monotonic()
                    self._look_for_partitions()
                self._poll(self._reader)
                self._failure = None
            except Exception as error:  # Whatever it is, a follower that is gone would be worse.
                self._fail(error)

    def _look_for_partitions(self) -> None:
        try:
            self._reader.look(_LOOK_S)
        except KafkaUnavailableError as error:  # the log cannot be read either
            LOG.debug("%s", error)

    def _look_for_end(self, reader: LogReader) -> None:
        while not self._stopping.is_set():
            with self._reached:
                self._reached.wait_for(lambda: self._is_awaited() or self._stopping.is_set())
            try:
                reader.go_on_at(self._reached_so_far())
                awaited_s = time.monotonic()
                while time.monotonic() < awaited_s + _LINGER_S and not self._stopping.is_set():
                    self._poll(reader, _LINGER_S)
                    if self._is_awaited():
                        awaited_s = time.monotonic()
                reader.rest()
            except Exception as error:
                self._fail(error)

    def _reached_so_far(self) -> dict[int, int]:
        with self._reached:
            return dict(self._positions)

    def _is_awaited(self) -> bool:
        return self._waiting > 0 and bool(self._unread(self._wanted))

    def _unread(self, ends: Mapping[int, int]) -> dict[int, int]:
        return {p: end for p, end in ends.items() if self._positions.get(p, 0) < end}

    def _poll(self, reader: LogReader, timeout_s: float = _POLL_S) -> None:
        """Hand over what comes next."""
        if reader.poll(self._take, timeout_s):
            self._finish_batch()
        self._publish(reader.positions)

    def _take(self, record: LogRecord) -> None:
        """Hand over a record, once: two readers see the same log, and who comes second is not heard."""
        with self._handing_over:
            if record.offset < self._next.get(record.partition, 0):
                return
            self._next[record.partition] = record.offset + 1
            self._is_batch_open = True
            try:
                self._on_record(record)
            except Exception:  # A fault of ours in one record must not lose those that came with it.
                LOG.exception("Skipped %d/%d of topic %s", record.partition, record.offset, self._reader.topic)

    def _finish_batch(self) -> None:
        with self._handing_over:
            if self._is_batch_open:
                self._is_batch_open = False
                self._on_batch()

    def _publish(self, positions: Mapping[int, int]) -> None:
        """Take note that what stands before them was handed over, its batch finished: by this reader, or the other."""
        with self._reached:
            for partition, position in positions.items():
                self._positions[partition] = max(position, self._positions.get(partition, 0))
            self._reached.notify_all()

    def _fail(self, error: Exception) -> None:
        if str(error) != str(self._failure):
            LOG.exception("Following topic %s failed; trying again", self._reader.topic)
        self._failure = error
        self._stopping.wait(_BACKOFF_S)
