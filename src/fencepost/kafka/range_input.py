"""Reading a range of a partition, from one offset up to another, as Arrow batches.

The same range gives the same records whoever reads it, and as often as it is read; nothing is committed, no group is
joined. Records of aborted transactions, the markers of transactions and what compaction removed take up offsets and
give no records: the end is reached when the log is known to go on behind it, or to end there.
"""

import contextlib
import gc
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.admin import Admin
from fencepost.kafka.errors import ReadTimeoutError, is_unavailable, new_client, translate
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.group_input import is_plain
from fencepost.kafka.library_log import library_log
from fencepost.kafka.log_gap import GapKind
from fencepost.kafka.log_range import LogRange
from fencepost.kafka.loss import report_loss
from fencepost.kafka.range_batches import RangeBatches
from fencepost.kafka.record_columns import AT_ONCE, RecordColumns, schema

IDLE_S = 120.0
_LOOK_S = 0.2
_SURE_S = 5.0  # a broker may hear of a topic, or of the end of its log, later than its leader
_ASK_S = 30.0
_ASK_EVERY_S = 0.5
_NEW_OBJECTS = 10 * AT_ONCE
_UNKNOWN = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Have Python's garbage collector look at more new objects at a time than there are in a lot of messages.

    They live for a moment, and in no cycle; by its own threshold it looks at each lot again and again. Spark uses its
    processes for others' work, too: behind this all is as before.
    """
    before = gc.get_threshold()
    if before[0]:  # at 0 somebody has switched it off
        gc.set_threshold(max(before[0], _NEW_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class RangeInput:
    """Reads one range, once. For one thread of one process.

    `fails_on_loss`: offsets of the range that are gone, or a topic that is gone or another one, end the reading with a
    DataLossError; otherwise what there is of the range is read, with a warning. A compacted log has lost nothing.
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
        """`conf` is made by `range_conf`, `columns` by `record_columns.schema`: all without headers by default.

        `idle_s` is how long nothing may come before that is an error.
        """
        self._guard = ForkGuard()
        self._conf = dict(conf)
        self._wanted = wanted
        self._columns = schema() if columns is None else columns
        self._fails_on_loss = fails_on_loss
        self._idle_s = idle_s
        self._at = wanted.start  # everything before it was read
        self._moved_s = self._asked_s = time.monotonic()
        self._trouble: Any = None  # what the client said last, if anything
        self._doubt_s: float | None = None  # since when something of the range seems to be missing
        self._is_there = True
        self._is_over = wanted.size == 0
        self._consumer: Any = None

    def batches(self) -> Generator[pa.RecordBatch]:
        """Return the records in the order of their offsets, as batches of the columns.

        Raises CorruptBatchError, DataLossError, ReadTimeoutError where nothing came for `idle_s`,
        KafkaAuthorizationError or KafkaRequestError.
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
        self._consumer = new_client(Consumer, self._conf, logger=library_log(__name__))
        try:
            with _rare_collections():
                yield from self._read()
        finally:
            self._close()

    def _read(self) -> Iterator[pa.RecordBatch]:
        self._go_to(self._at)
        columns = RecordColumns(self._wanted.place, self._columns)
        while not self._is_over:
            columns.take(self._fetched(AT_ONCE))
            if columns.is_full:
                yield from columns.batches()
        if len(columns):
            yield from columns.batches()

    def _go_to(self, offset: int) -> None:
        self._at = offset
        self._consumer.assign([ClientPartition(*self._wanted.place, offset)])

    def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        with contextlib.suppress(KafkaException, RuntimeError):
            consumer.close()

    def _fetched(self, at_once: int) -> list[Any]:
        """Return messages of the range that have come; waits a moment where there are none."""
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
            self._check_patience()
        return messages

    def _taken(self, messages: list[Any]) -> list[Any]:
        last = messages[-1].offset()
        self._moved_s, self._trouble, self._doubt_s = time.monotonic(), None, None
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
            self._out_of_range(error)
        elif is_unavailable(error) or error.code() in _UNKNOWN:
            self._trouble = error
        else:
            raise self._failed(error)
        return True

    def _ended(self, offset: int) -> None:
        """Take note that the log ends at `offset`, for whom reads committed records; it may go on later."""
        self._trouble = None
        self._at = max(self._at, offset)
        self._is_over = self._is_over or offset >= self._wanted.end

    def _high(self) -> int:
        """Return where the log ends with what is not committed, as far as the client has heard."""
        return int(self._consumer.get_watermark_offsets(ClientPartition(*self._wanted.place), cached=True)[1])

    def _out_of_range(self, error: Any) -> None:
        try:
            low, high = self._consumer.get_watermark_offsets(ClientPartition(*self._wanted.place), timeout=_ASK_S)
        except KafkaException as failure:
            raise self._failed(failure) from failure
        if low > self._at:
            self._lose(f"offsets {self._at} to {min(low, self._wanted.end) - 1} are gone: the log begins at {low} now")
            self._is_over = low >= self._wanted.end
            self._go_to(low)
        elif self._at > high:
            self._lose(f"the log ends at {high}: it was truncated, or the topic was made anew")
            self._is_over = True
        else:
            raise self._failed(error)

    def _check_patience(self) -> None:
        """Raise, or give up, where what is awaited does not come."""
        now = time.monotonic()
        if now - max(self._moved_s, self._asked_s) > _ASK_EVERY_S:
            self._ask()
        if self._doubt_s is not None:
            if now - self._doubt_s > min(_SURE_S, self._idle_s):
                self._lose(self._missing())
                self._is_over = True
        elif now - self._moved_s > self._idle_s:
            raise ReadTimeoutError(
                f"Nothing came for {self._idle_s:g} s while reading {self._wanted}, at offset {self._at}: "
                f"{self._reason()}. Option kafkaConsumer.pollTimeoutMs says how long to wait."
            )

    def _ask(self) -> None:
        """Ask whether there is a broker, and the partition: the client waits for them in silence."""
        topic, partition = self._wanted.place
        self._trouble, is_doubtful = None, False
        try:
            found = self._consumer.list_topics(topic, timeout=_ASK_EVERY_S).topics[topic]
            if found.error is not None and found.error.code() not in _UNKNOWN:
                raise KafkaException(found.error)
            self._is_there = partition in found.partitions
            is_doubtful = not self._is_there or 0 <= self._high() < self._wanted.end
        except KafkaException as error:
            self._trouble = error.args[0]
            if not is_unavailable(self._trouble):
                raise self._failed(error) from error
        self._asked_s = time.monotonic()
        self._doubt_s = (self._doubt_s or self._asked_s) if is_doubtful else None

    def _missing(self) -> str:
        if not self._is_there:
            return "there is no such topic or partition any more"
        return f"the log ends at {self._high()}: it was truncated, or the topic was made anew"

    def _reason(self) -> str:
        if self._trouble is not None:
            return f"the broker cannot be reached ({self._trouble.str()})"
        if self._high() >= self._wanted.end:
            return (
                "a transaction that wrote to it may still be open (`kafka-transactions.sh find-hanging --topic "
                f"{self._wanted.place.topic}` names one that nobody ends)"
            )
        return "the broker answers nothing"

    def _check_topic(self) -> None:
        """Make sure that it was one and the same topic all the time: the client goes on in a new one of that name."""
        if not self._wanted.topic_id:
            return
        admin = Admin(self._conf, timeout_s=_ASK_S)
        try:
            found = admin.topic(self._wanted.place.topic)
        finally:
            admin.close()
        if found is None or found.id != self._wanted.topic_id:
            what = "was deleted" if found is None else "was deleted and created again"
            self._lose(f"topic {self._wanted.place.topic} {what} while it was read")

    def _lose(self, what: str) -> None:
        report_loss(self._wanted, what, is_error=self._fails_on_loss)

    def _failed(self, cause: Any) -> Exception:
        return translate(cause, f"reading {self._wanted}", str(self._conf.get("bootstrap.servers", "")))
