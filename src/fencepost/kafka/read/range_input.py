"""Reads a range of a partition, from one offset up to another, as Arrow batches.

The same range always gives the same records; nothing is committed, and no group is joined. Records of aborted
transactions, transaction markers and compacted records occupy offsets but are not returned. The end is reached once the
log is known to continue after it, or to end there.
"""

import contextlib
import gc
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import UNKNOWN_TOPIC
from fencepost.kafka.errors import (
    KafkaRequestError,
    KafkaUnavailableError,
    ReadTimeoutError,
    is_unavailable,
    new_client,
    translate,
)
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.library_log import library_log
from fencepost.kafka.read.doubt import SURE_S, Doubts
from fencepost.kafka.read.loss import report_loss
from fencepost.kafka.read.range_batches import RangeBatches
from fencepost.kafka.read.read_again import read_again_by
from fencepost.kafka.read.record_columns import AT_ONCE, MessageCollector, schema
from fencepost.kafka.value.fetched import is_plain
from fencepost.kafka.value.log_gap import GapKind
from fencepost.kafka.value.log_range import LogRange

IDLE_S = 120.0
_LOOK_S = 0.2
_ASK_S = 30.0
_ASK_EVERY_S, _EDGES_S = 0.5, 2.0
_NEW_OBJECTS = 10 * AT_ONCE
_UNKNOWN = UNKNOWN_TOPIC | {KafkaError._UNKNOWN_PARTITION}


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python's garbage collector run only after more new objects than one fetch has messages.

    Messages live for a moment and are in no cycles, but with its default threshold the collector would scan them again
    and again. Spark also uses this process for other work, so the threshold is restored afterwards.
    """
    before = gc.get_threshold()
    if before[0]:  # 0 means that it is disabled
        gc.set_threshold(max(before[0], _NEW_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class RangeInput:
    """Reads one range, once. For one thread of one process.

    With `fails_on_loss`, reading ends with a DataLossError if offsets of the range are gone, or if the topic was
    deleted or replaced. Without it, the rest of the range is read, with a warning. Compaction does not count as loss.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        wanted: LogRange,
        *,
        columns: pa.Schema | None = None,
        fails_on_loss: bool = True,
        idle_s: float = IDLE_S,
    ) -> None:
        """`conf` comes from `range_conf`, and `columns` from `record_columns.schema`: by default all except headers.

        It is an error if nothing arrives for `idle_s`.
        """
        self._guard = ForkGuard()
        self._conf = dict(conf)
        self._wanted = wanted
        self._columns = schema() if columns is None else columns
        self._fails_on_loss = fails_on_loss
        self._idle_s = idle_s
        self._at = wanted.start  # everything before it was read
        self._moved_s, self._asked_s = time.monotonic(), float("-inf")
        self._obstacle = ""  # why nothing arrives, if that is known
        self._doubts: Doubts[LogRange] = Doubts()
        self._end: int | None = None  # of the log with open transactions, as its leader last answered
        self._has_stopped = False  # the client fetches nothing until it is assigned again
        self._is_over = wanted.size == 0
        self._consumer: Any = None
        self._admin: Admin | None = None

    def batches(self) -> Generator[pa.RecordBatch]:
        """Return the records in the order of their offsets, as batches of the columns.

        Raises CorruptBatchError, DataLossError, KafkaAuthorizationError or KafkaRequestError, and ReadTimeoutError if
        nothing arrives for `idle_s`.
        """
        if self._is_over:
            return
        self._guard.check("The reader of a range")
        whole = RangeBatches(self._conf, self._wanted, self._columns)
        yield from whole.batches()
        if whole.is_cut:
            self._lose(f"at offset {whole.at}, {GapKind.DIVERGED.value}")
        if whole.at < self._wanted.end:
            yield from self._by_client(whole.at)
        self._check_topic()

    def _by_client(self, offset: int) -> Iterator[pa.RecordBatch]:
        self._at, self._moved_s = offset, time.monotonic()
        conf = {**self._conf, "throttle_cb": self._throttled}
        self._consumer = new_client(Consumer, conf, logger=library_log(__name__))
        try:
            with _rare_collections():
                yield from self._read()
        finally:
            self._close()

    def _throttled(self, event: Any) -> None:
        """Restart `idle_s` at the time when the broker's quota allows the next answer."""
        self._moved_s = max(self._moved_s, time.monotonic() + event.throttle_time)

    def _read(self) -> Iterator[pa.RecordBatch]:
        self._go_to(self._at)
        columns = MessageCollector(self._wanted.place, self._columns, read_again_by(self._conf))
        while not self._is_over:
            columns.take(self._fetched(AT_ONCE))
            if columns.is_full:
                yield from columns.batches()
        if len(columns):
            yield from columns.batches()

    def _go_to(self, offset: int) -> None:
        self._at, self._has_stopped = offset, False
        self._consumer.assign([ClientPartition(*self._wanted.place, offset)])

    def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        with contextlib.suppress(KafkaException, RuntimeError):
            consumer.close()
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _fetched(self, at_once: int) -> list[Any]:
        """Return messages of the range that have arrived; if there are none, wait a moment for one."""
        most = min(at_once, self._wanted.end - self._at)
        try:
            messages: list[Any] = self._consumer.consume(most, 0)
            if not messages:
                first = self._consumer.poll(_LOOK_S)
                messages = [] if first is None else [first]
        except KafkaException as error:
            raise self._failed(error) from error
        if not is_plain(messages):
            messages = [message for message in messages if not self._is_event(message)]
        if messages:
            messages = self._taken(messages)
        elif not self._is_over:
            self._check_progress()
        return messages

    def _taken(self, messages: list[Any]) -> list[Any]:
        last = messages[-1].offset()
        self._moved_s, self._obstacle, self._doubts = time.monotonic(), "", Doubts()
        self._at = last + 1
        self._is_over = self._is_over or self._at >= self._wanted.end
        if last >= self._wanted.end:
            return [message for message in messages if message.offset() < self._wanted.end]
        return messages

    def _is_event(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:
            self._ended(message.offset())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._has_stopped = True
        elif is_unavailable(error) or error.code() in _UNKNOWN:
            self._obstacle = f"the broker cannot be reached ({error.str()})"
        else:
            raise self._failed(error)
        return True

    def _ended(self, offset: int) -> None:
        """Record that the log's committed part ends at `offset` for now."""
        self._obstacle = ""
        self._at = max(self._at, offset)
        self._is_over = self._is_over or offset >= self._wanted.end

    def _check_progress(self) -> None:
        """Check why nothing arrives. Ends the reading, or raises an error, if nothing will."""
        quiet_since_s = self._asked_s if self._has_stopped else max(self._moved_s, self._asked_s)
        if time.monotonic() - quiet_since_s > _ASK_EVERY_S:
            self._ask()
        if not (self._is_over or len(self._doubts)) and time.monotonic() - self._moved_s > self._idle_s:
            raise ReadTimeoutError(
                f"Nothing came for {self._idle_s:g} s while reading {self._wanted}, at offset {self._at}: "
                f"{self._reason()}. Option kafkaConsumer.pollTimeoutMs says how long to wait."
            )

    def _ask(self) -> None:
        """Ask the partition's leader where the log begins and ends.

        The high watermark of a fetch is no evidence: after a failover it is lower than the last committed offset until
        enough replicas are in sync.
        """
        begin, self._end, self._obstacle, missing = self._at, None, "", ""
        try:
            edges = self._edges()
            if edges is None:
                missing = "there is no such topic or partition any more"
            else:
                begin, self._end = edges
            if self._end is not None and self._end < self._wanted.end:
                missing = f"the log ends at {self._end}: it was truncated, or the topic was made anew"
        except KafkaUnavailableError as error:
            self._obstacle = f"the broker cannot be reached ({error})"
        except KafkaRequestError as error:
            if error.code not in _UNKNOWN:
                raise
            self._obstacle = str(error)  # some brokers do not know the topic yet, or no longer
        self._asked_s = time.monotonic()
        if self._is_confirmed(missing):
            self._lose(missing)
            self._is_over = True
        elif begin > self._at:
            self._lose(
                f"offsets {self._at} to {min(begin, self._wanted.end) - 1} are gone: the log begins at {begin} now"
            )
            self._is_over = begin >= self._wanted.end
            self._go_to(begin)
        elif self._has_stopped:
            self._go_to(self._at)

    def _edges(self) -> tuple[int, int] | None:
        """Return where the log begins and ends, open transactions included; None if there is no such partition."""
        self._admin = self._admin or Admin(self._conf, timeout_s=_EDGES_S)
        place = self._wanted.place
        found = self._admin.topics.get(place.topic)
        if found is None or place.partition >= found.partitions:
            return None
        begin = self._admin.offsets.starts([place])[place]
        return begin, self._admin.offsets.ends([place], read_committed=False)[place]

    def _is_confirmed(self, missing: str) -> bool:
        seeming, sure_s = [self._wanted] if missing else [], min(SURE_S, self._idle_s)
        return bool(self._doubts.confirmed([self._wanted], seeming, self._asked_s, sure_s))

    def _reason(self) -> str:
        if self._obstacle:
            return self._obstacle
        if self._end is not None and self._end >= self._wanted.end:
            return (
                "a transaction that wrote to it may still be open (`kafka-transactions.sh find-hanging --topic "
                f"{self._wanted.place.topic}` names one that nobody ends)"
            )
        return "the broker answers nothing"

    def _check_topic(self) -> None:
        """Check that the topic was not replaced: the client would continue in a new topic of the same name."""
        if not self._wanted.topic_id:
            return
        admin = Admin(self._conf, timeout_s=_ASK_S)
        try:
            found = admin.topics.get(self._wanted.place.topic)
        finally:
            admin.close()
        if found is None or found.id != self._wanted.topic_id:
            what = "was deleted" if found is None else "was deleted and created again"
            self._lose(f"topic {self._wanted.place.topic} {what} while it was read")

    def _lose(self, what: str) -> None:
        report_loss(self._wanted, what, is_error=self._fails_on_loss)

    def _failed(self, cause: Any) -> Exception:
        return translate(cause, f"reading {self._wanted}", str(self._conf.get("bootstrap.servers", "")))
