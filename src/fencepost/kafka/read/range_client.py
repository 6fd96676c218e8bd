"""Reads a range of a partition with librdkafka, which recovers from all failures that pass."""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import (
    KafkaRequestError,
    KafkaUnavailableError,
    ReadTimeoutError,
    translate,
)
from fencepost.kafka.library_log import library_log
from fencepost.kafka.read.consumer import UNKNOWN_PARTITION, arrived, close_consumer, is_passing, obstacle_of
from fencepost.kafka.read.doubt import SURE_S, Doubts
from fencepost.kafka.read.read_again import read_again_by
from fencepost.kafka.read.record_columns import AT_ONCE, MessageCollector
from fencepost.kafka.value.fetched import is_plain
from fencepost.kafka.value.log_range import LogRange
from fencepost.kafka.wire.library_client import new_client

_LOOK_S = 0.2
_ASK_EVERY_S, _EDGES_S = 0.5, 2.0
_NEW_OBJECTS = 10 * AT_ONCE


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


class RangeSilence:
    """Finds out why nothing of a range arrives, and whether anything will."""

    def __init__(self, conf: Mapping[str, Any], wanted: LogRange, idle_s: float) -> None:
        self._wanted = wanted
        self._idle_s = idle_s
        self._admin = Admin(conf, timeout_s=_EDGES_S)
        self._moved_s, self._asked_s = time.monotonic(), float("-inf")
        self._doubts: Doubts[LogRange] = Doubts()
        self._end: int | None = None  # of the log with open transactions, as its leader last answered
        self.obstacle = ""
        """Why nothing arrives, if that is known."""

    def close(self) -> None:
        self._admin.close()

    def ended(self) -> None:
        """Record that something has arrived."""
        self._moved_s, self.obstacle, self._doubts = time.monotonic(), "", Doubts()

    @property
    def is_doubting(self) -> bool:
        """Return whether a loss is being confirmed."""
        return len(self._doubts) > 0

    def throttled(self, event: Any) -> None:
        """Restart `idle_s` at the time when the broker's quota allows the next answer."""
        self._moved_s = max(self._moved_s, time.monotonic() + event.throttle_time)

    def is_suspicious(self, *, has_stopped: bool) -> bool:
        """Return whether to `ask`. `has_stopped`: nothing will arrive any more."""
        quiet_since_s = self._asked_s if has_stopped else max(self._moved_s, self._asked_s)
        return time.monotonic() - quiet_since_s > _ASK_EVERY_S

    def ask(self, at: int) -> tuple[int, str]:
        """Return where the log begins, as far as that is known, and what is certainly missing; "" if nothing is.

        Only the partition's leader is asked. The high watermark of a fetch is no evidence: after a failover it is lower
        than the last committed offset until enough replicas are in sync.
        """
        begin, self._end, self.obstacle, missing = at, None, "", ""
        try:
            edges = self._edges()
            if edges is None:
                missing = "there is no such topic or partition any more"
            else:
                begin, self._end = edges
            if self._end is not None and self._end < self._wanted.end:
                missing = f"the log ends at {self._end}: it was truncated, or the topic was created again"
        except KafkaUnavailableError as error:
            self.obstacle = f"the broker cannot be reached ({error})"
        except KafkaRequestError as error:
            if error.code not in UNKNOWN_PARTITION:
                raise
            self.obstacle = str(error)  # some brokers do not know the topic yet, or no longer
        self._asked_s = time.monotonic()
        seeming = [self._wanted] if missing else []
        is_sure = self._doubts.confirmed([self._wanted], seeming, self._asked_s, SURE_S)
        return begin, missing if is_sure else ""

    def _edges(self) -> tuple[int, int] | None:
        """Return where the log begins and ends, open transactions included; None if there is no such partition."""
        place = self._wanted.place
        found = self._admin.topics.get(place.topic)
        if found is None or place.partition >= found.partitions:
            return None
        begin = self._admin.offsets.starts([place])[place]
        return begin, self._admin.offsets.ends([place], read_committed=False)[place]

    def check(self, at: int) -> None:
        """Raise ReadTimeoutError if nothing has arrived for `idle_s`, unless a loss is being confirmed."""
        if not self.is_doubting and time.monotonic() - self._moved_s > self._idle_s:
            raise ReadTimeoutError(
                f"Nothing came for {self._idle_s:g} s while reading {self._wanted}, at offset {at}: "
                f"{self._reason()}. Option kafkaConsumer.pollTimeoutMs says how long to wait."
            )

    def _reason(self) -> str:
        if self.obstacle:
            return self.obstacle
        if self._end is not None and self._end >= self._wanted.end:
            return (
                "a transaction that wrote to it may still be open (`kafka-transactions.sh find-hanging --topic "
                f"{self._wanted.place.topic}` names one that nobody ends)"
            )
        return "the broker answers nothing"


class RangeClient:
    """Reads a range, or the rest of one, once."""

    def __init__(
        self,
        conf: Mapping[str, Any],
        wanted: LogRange,
        at: int,
        silence: RangeSilence,
        lose: Callable[[str], None],
    ) -> None:
        """Read from offset `at` on. `lose` is called with what is lost, and may raise an error."""
        self._conf = conf
        self._wanted = wanted
        self._lose = lose
        self._at = at  # everything before it was read
        self._is_over = at >= wanted.end
        self._has_stopped = False  # the client fetches nothing until it is assigned again
        self._silence = silence
        settings = {**conf, "throttle_cb": silence.throttled}
        self._consumer: Any = new_client(Consumer, settings, logger=library_log(__name__))

    def batches(self, columns: pa.Schema, patience_s: float) -> Iterator[pa.RecordBatch]:
        """Return the records, as `RangeInput.batches` does. Stops if nothing comes for `patience_s`: see `at`.

        Its own metadata are those of the broker that it used last, which may be cut off from the others: then another
        client has to go on.
        """
        until_s = time.monotonic() + patience_s
        collected = MessageCollector(self._wanted.place, columns, read_again_by(self._conf))
        try:
            with _rare_collections():
                self._go_to(self._at)
                while not self._is_over and (time.monotonic() < until_s or self._silence.is_doubting):
                    messages = self._fetched()
                    if messages:
                        until_s = time.monotonic() + patience_s
                    collected.take(messages)
                    if collected.is_full:
                        yield from collected.batches()
                if len(collected):
                    yield from collected.batches()
        finally:
            close_consumer(self._consumer)

    @property
    def at(self) -> int:
        """Return the offset before which everything was read, or is known to be lost."""
        return self._wanted.end if self._is_over else self._at

    def _go_to(self, offset: int) -> None:
        self._at, self._has_stopped = offset, False
        self._consumer.assign([ClientPartition(*self._wanted.place, offset)])

    def _fetched(self) -> list[Any]:
        """Return messages of the range that have arrived; if there are none, wait a moment for one."""
        try:
            messages = arrived(self._consumer, min(AT_ONCE, self._wanted.end - self._at), _LOOK_S)
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
        self._silence.ended()
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
        elif is_passing(error):
            self._silence.obstacle = obstacle_of(error)
        else:
            raise self._failed(error)
        return True

    def _ended(self, offset: int) -> None:
        """Record that the log's committed part ends at `offset` for now."""
        self._silence.obstacle = ""
        self._at = max(self._at, offset)
        self._is_over = self._is_over or offset >= self._wanted.end

    def _check_progress(self) -> None:
        """Check why nothing arrives. Ends the reading, or raises an error, if nothing will."""
        if self._silence.is_suspicious(has_stopped=self._has_stopped):
            self._ask()
        if not self._is_over:
            self._silence.check(self._at)

    def _ask(self) -> None:
        begin, missing = self._silence.ask(self._at)
        if missing:
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

    def _failed(self, cause: Any) -> Exception:
        return translate(cause, f"reading {self._wanted}", str(self._conf.get("bootstrap.servers", "")))
