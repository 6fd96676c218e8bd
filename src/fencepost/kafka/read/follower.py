"""Follows a log on separate threads, and lets callers wait until it has caught up."""

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
_LINGER_S = 0.1  # callers that wait for the end of a log often wait for it again


class LogFollower:
    """Passes each record of a log to `on_record`, once and in order, and calls `on_batch` after each group of records.

    Both are called on the thread of `start` until that returns, then on the follower's threads, never on two at once.
    They must neither raise nor wait, because that would delay all callers that wait for the log.

    `reader` makes requests that wait at the broker. This costs little and gets records at once, but notices the end of
    the log late. A log with transactions ends in a marker that is not a record; `end_reader` then looks for the end
    while a caller waits for it, and is idle otherwise. After `read_past` it need not: that marker is known.

    New partitions of the topic are followed within seconds, or at once if a caller waits for the end.
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
        self._handover = _Handover(reader.topic, on_record, on_batch)
        self._reached = _ReachedPositions()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, timeout_s: float) -> None:
        """Read everything up to the end, and then start to follow the log. May be called again after an error."""
        first = self._end_reader or self._reader
        first.read_to_end(timeout_s, self._handover.take)
        self._handover.is_batch_open = True  # the first batch is reported even if it is empty
        self._handover.finish_batch()
        self._reached.publish(first.positions)
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
        """Wait until `on_record` has received everything that was written before this call.

        After `timeout_s`, raises the error that prevents the follower from reading, such as a lost permission, or else
        ReadTimeoutError.
        """
        if threading.current_thread() in self._threads:
            raise RuntimeError("A follower cannot wait for itself: callbacks must not read to the end.")
        deadline = time.monotonic() + timeout_s
        unread = self._reached.wait_for_all(self._reader.ends(timeout_s), deadline)
        if unread:
            raise self._reached.failure or self._reader.timed_out(unread, timeout_s)

    def read_past(self, partition: int, offset: int, timeout_s: float) -> None:
        """Wait, without a request, until `on_record` has received this record, the last one of a committed transaction.

        After `timeout_s`, raises the error that prevents the follower from reading, or else ReadTimeoutError.
        """
        wanted = {partition: offset + 1}
        if not self._reached.wait_for(lambda: not self._reached.unread(wanted), timeout_s):
            raise self._reached.failure or self._reader.timed_out(wanted, timeout_s)
        self._reached.has_marker_after(partition, offset)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop following the log. Idempotent."""
        self._stopping.set()
        self._reached.publish({})  # wakes the threads that wait
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
                    try:
                        self._reader.look(_LOOK_S)
                    except KafkaUnavailableError as error:  # then the log cannot be read either, which is reported
                        LOG.debug("%s", error)
                self._poll(self._reader)
                self._reached.failure = None
            except Exception as error:  # after any error, the follower must continue
                self._fail(error)

    def _look_for_end(self, reader: LogReader) -> None:
        while not self._stopping.is_set():
            self._reached.wait_for(lambda: self._reached.are_awaited() or self._stopping.is_set())
            try:
                reader.go_on_at(self._reached.positions())
                awaited_s = time.monotonic()
                while time.monotonic() < awaited_s + _LINGER_S and not self._stopping.is_set():
                    self._poll(reader, _LINGER_S)
                    if self._reached.are_awaited():
                        awaited_s = time.monotonic()
                reader.rest()
            except Exception as error:  # likewise
                self._fail(error)

    def _poll(self, reader: LogReader, timeout_s: float = _POLL_S) -> None:
        if reader.poll(self._handover.take, timeout_s):
            self._handover.finish_batch()
        self._reached.publish(reader.positions)

    def _fail(self, error: Exception) -> None:
        if str(error) != str(self._reached.failure):
            LOG.exception("Following topic %s failed; trying again", self._reader.topic)
        self._reached.failure = error
        self._stopping.wait(_BACKOFF_S)


class _Handover:
    """Passes on the records of a log that two readers read, each record once."""

    def __init__(self, topic: str, on_record: Handler, on_batch: Callable[[], None]) -> None:
        self._topic = topic
        self._on_record = on_record
        self._on_batch = on_batch
        self._in_use = threading.Lock()
        self._next: dict[int, int] = {}
        self.is_batch_open = False

    def take(self, record: LogRecord) -> None:
        """Pass on a record, unless the other reader of the same log has already passed it on."""
        with self._in_use:
            if record.offset < self._next.get(record.partition, 0):
                return
            self._next[record.partition] = record.offset + 1
            self.is_batch_open = True
            try:
                self._on_record(record)
            except Exception:  # a bug that affects one record must not lose the others
                LOG.exception("Skipped %d/%d of topic %s", record.partition, record.offset, self._topic)

    def finish_batch(self) -> None:
        with self._in_use:
            if self.is_batch_open:
                self.is_batch_open = False
                self._on_batch()


class _ReachedPositions:
    """The positions before which everything was passed on, and those that callers wait for.

    Markers of transactions are not passed on. A reader steps over the last one only when it has waited for more, but
    after a record that was read, which is known to end a transaction, a marker follows: if the log ends one offset
    later, that is all there is.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._positions: dict[int, int] = {}
        self._marked: dict[int, int] = {}  # by partition: the position after a record that a marker follows
        self._wanted: dict[int, int] = {}
        self._waiting = 0
        self.failure: Exception | None = None
        """Why the log cannot be read now."""

    def positions(self) -> dict[int, int]:
        with self._changed:
            return dict(self._positions)

    def publish(self, positions: Mapping[int, int]) -> None:
        """Record that everything before these positions was passed on, by either reader, and its batch finished."""
        with self._changed:
            for partition, position in positions.items():
                self._positions[partition] = max(position, self._positions.get(partition, 0))
            self._changed.notify_all()

    def has_marker_after(self, partition: int, offset: int) -> None:
        """Record that a transaction ended with this record, which was passed on: somewhere after it is its marker."""
        with self._changed:
            self._marked[partition] = offset + 1

    def wait_for(self, predicate: Callable[[], bool], timeout_s: float | None = None) -> bool:
        with self._changed:
            return self._changed.wait_for(predicate, timeout_s)

    def wait_for_all(self, ends: Mapping[int, int], deadline_s: float) -> dict[int, int]:
        """Wait until the ends are reached, and return those that are not when the time is up."""
        with self._changed:
            if not self.unread(ends):
                return {}
            self._wanted = {p: max(end, self._wanted.get(p, 0)) for p, end in ends.items()}
            self._waiting += 1
            self._changed.notify_all()
            try:
                while unread := self.unread(ends):
                    left_s = deadline_s - time.monotonic()
                    if left_s <= 0 or not self._changed.wait(left_s):
                        break
                return unread
            finally:
                self._waiting -= 1

    def are_awaited(self) -> bool:
        return self._waiting > 0 and bool(self.unread(self._wanted))

    def unread(self, ends: Mapping[int, int]) -> dict[int, int]:
        return {p: end for p, end in ends.items() if self._positions.get(p, 0) < end and not self._is_marker(p, end)}

    def _is_marker(self, partition: int, end: int) -> bool:
        """Say whether only a marker is left to read, which takes one offset."""
        position = self._positions.get(partition)
        return position is not None and position == self._marked.get(partition) == end - 1
