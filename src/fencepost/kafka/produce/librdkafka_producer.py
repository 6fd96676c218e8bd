"""A librdkafka producer that tracks its strikes, failed deliveries and forks.

librdkafka resends transactional requests by itself and reports that only in its log. `StrikeLog` reads that log: a line
`REQTMOUT` or `FAIL` of an established connection is a *strike* (E5).
"""

import logging
import re
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from operator import length_hint
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.produce.transactional_client import LET_PASS, Failure, ProducerError, RecordProducer, classify
from fencepost.kafka.value.whole import NOW, DeliveryCallback, PlacedRecords
from fencepost.kafka.wire.library_client import library_conf
from fencepost.record import Repeated

log = logging.getLogger(__name__)

# A connection that was never established. The later states (APIVERSION_QUERY, SSL_HANDSHAKE, AUTH_...) do count as
# strikes, although nothing transactional was sent in them either: the text of a lost connection is the same in all
# states, and librdkafka suppresses a third line with the same text, so the next one would be missed.
_BEFORE_CONNECTED = re.compile(r"in state (INIT|TRY_CONNECT|CONNECT)\b")

_REFUSED_CONNECTION = re.compile(r"SASL authentication error|certificate verify failed")


class StrikeLog(logging.Handler):
    """Receives librdkafka's log lines and counts the strikes among them (E5).

    `has_failed_transaction` is set by the line that says that the open transaction must be aborted. `refusals` holds
    the lines about failed authentication or certificates; the client itself keeps trying and only reports a time-out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.strikes = 0
        self.last_strike: str | None = None
        self.has_failed_transaction = False
        self.refusals: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        self.has_failed_transaction |= line.startswith("TXNERR")
        is_lost = line.startswith("FAIL") and _BEFORE_CONNECTED.search(line) is None
        if is_lost or line.startswith("REQTMOUT"):
            self.strikes += 1
            self.last_strike = line
            if _REFUSED_CONNECTION.search(line) is not None:
                self.refusals.append(line.partition(": ")[2])
        log.debug("librdkafka: %s", line)


_look_again_in = time.sleep
_LOOK_EVERY_S = 0.0005
_STALLED_S = 0.2
_NO_CALLBACK = Repeated(None, sys.maxsize)


def producer_error(error: BaseException) -> ProducerError:
    """Wrap an exception of the client. A SystemError has the Kafka error as its cause."""
    if isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return ProducerError(classify(error.args[0]), f"{error.args[0].name()}: {error.args[0].str()}")
    return ProducerError(Failure.FATAL, str(error))


class LibrdkafkaProducer(RecordProducer):
    """One librdkafka producer, as thread-safe as librdkafka is. Bound to the process that created it (E8)."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """`conf` uses librdkafka's names. Raises ProducerError if librdkafka refuses it."""
        self._fork = ForkGuard()
        self._log = StrikeLog()
        logger = logging.Logger("librdkafka")
        logger.addHandler(self._log)
        self.failed_delivery: ProducerError | None = None
        is_transactional = "transactional.id" in conf
        self._watched: set[tuple[str, int | None]] | None = set() if is_transactional else None
        self._record_bytes = 0  # of one of the last records
        self._kept_bytes = int(conf.get("batch.size", 1_000_000))  # what may stay queued until it is flushed
        # A callback takes the interpreter's lock once per record, even if it is called for errors only, and the task's
        # thread needs that lock. In a transaction the client itself refuses to commit if a record is missing.
        callback = {} if is_transactional else {"on_delivery": self._delivered}
        try:
            self._producer = Producer({**library_conf(conf), **callback}, logger=logger)
        except KafkaException as error:
            raise producer_error(error) from None

    @property
    def strikes(self) -> int:
        """Process the log, then return the number of strikes in it so far."""
        self.serve(0)
        return self._log.strikes

    @property
    def last_strike(self) -> str | None:
        return self._log.last_strike

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None and self.failed_delivery is None:
            self.failed_delivery = ProducerError(
                classify(error), f"{error.name()}: {error.str()} (record for topic {message.topic()})"
            )

    def _both(self, callback: DeliveryCallback) -> DeliveryCallback:
        def delivered(error: Any, message: Any) -> None:
            self._delivered(error, message)
            callback(error, message)

        return delivered

    def serve(self, timeout_s: float) -> None:
        """Process callbacks and log lines. A fatal error is raised by the next real call."""
        self._fork.check("a producer")
        try:
            self._producer.poll(timeout_s)
        except (KafkaException, SystemError) as error:
            log.debug("poll: %s", error)

    def produce(self, topic: str, value: bytes | None, **fields: Any) -> None:
        """Enqueue one record. Its `on_delivery`, if given, is called in addition to the client's own accounting."""
        self._fork.check("a producer")
        callback: DeliveryCallback | None = fields.get("on_delivery")
        if callback is not None:
            fields["on_delivery"] = self._both(callback)
        elif self._is_first(topic, fields.get("partition")):
            fields["on_delivery"] = self._delivered
        while True:
            try:
                self._producer.produce(topic, value, **fields)
                return
            except BufferError:
                self._make_room()
            except KafkaException as error:
                raise self._refusal(error, topic) from None

    def _is_first(self, topic: str, partition: int | None = None) -> bool:
        """Return whether a record is the transaction's first for a topic, or for an explicitly chosen partition.

        Its outcome shows why the topic or partition is refused: the client finds out by itself and reports the error
        only for that record.
        """
        if self._watched is None or (topic, partition) in self._watched:
            return False
        self._watched.add((topic, partition))
        return True

    def produce_columns(
        self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]
    ) -> None:
        self._fork.check("a producer")
        if not len(values):
            return
        self._record_bytes = len(values[0] or b"")
        if isinstance(topics, Repeated) and isinstance(keys, Repeated) and keys.value is None:
            self._produce_column(topics.value, values)
        else:
            self._produce_keyed(topics, values, keys)

    def _produce_column(self, topic: str, values: Sequence[bytes | None]) -> None:
        left = iter(values)
        if self._is_first(topic):
            self.produce(topic, next(left), on_delivery=self._delivered)
        produce = self._producer.produce
        while True:
            try:
                for value in left:
                    produce(topic, value)
                return
            except BufferError:
                del produce  # see `ProducerClient._call`
                self.produce(topic, value)  # once there is room
                produce = self._producer.produce
            except KafkaException as error:
                del produce  # see `ProducerClient._call`
                raise self._refusal(error, topic) from None

    def _produce_keyed(
        self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]
    ) -> None:
        last = None
        watched = self._watched
        left = zip(topics, values, keys, strict=True)
        produce = self._producer.produce
        while True:
            try:
                for topic, value, key in left:
                    if topic is not last and watched is not None and (topic, None) not in watched:
                        self.produce(topic, value, key=key)
                    else:
                        produce(topic, value, key)
                    last = topic
                return
            except BufferError:
                del produce  # see `ProducerClient._call`
                self.produce(topic, value, key=key)  # once there is room
                produce = self._producer.produce
            except ProducerError:
                del produce
                raise
            except KafkaException as error:
                del produce
                raise self._refusal(error, topic) from None

    def produce_placed(self, records: PlacedRecords) -> None:
        self._fork.check("a producer")
        records.ensure_even()
        at, count = 0, len(records.values)
        for index in (*sorted({*records.callbacks, *self._firsts(records)}), count):
            while at < index:
                at = self._produce_run(records, at, index)
            if index < count:
                self._produce_one_placed(records, index, records.callbacks.get(index))
                at = index + 1

    def _firsts(self, records: PlacedRecords) -> Iterator[int]:
        if self._watched is None or not len(records.values):
            return
        places = [(records.topics[0], records.partitions[0])]
        if not (isinstance(records.topics, Repeated) and isinstance(records.partitions, Repeated)):
            places = list(zip(records.topics, records.partitions, strict=True))
        for place in set(places) - self._watched:
            yield places.index(place)

    def _produce_run(self, records: PlacedRecords, start: int, stop: int) -> int:
        """Enqueue records from `start` up to `stop` or until the queue is full. Returns the first one not enqueued.

        The client's method is called through `map`. A Python-level step per record and keyword arguments would double
        the cost.
        """
        part = slice(start, stop)
        self._record_bytes = len(records.values[start] or b"")
        left, headers = iter(list(records.values[part])), records.headers[part]
        columns = (records.keys, records.partitions, _NO_CALLBACK, _NO_CALLBACK)
        try:
            deque(
                map(
                    self._producer.produce,  # in no variable, see `ProducerClient._call`
                    records.topics[part],
                    left,
                    *(column[part] for column in columns),
                    _times(records.timestamps[part]),
                    *([list(map(list, headers))] if any(headers) else ()),
                ),
                maxlen=0,
            )
            return stop
        except BufferError:
            index = stop - length_hint(left) - 1
        except KafkaException as error:
            raise self._refusal(error, records.topics[stop - length_hint(left) - 1]) from None
        self._produce_one_placed(records, index)  # once there is room
        return index + 1

    def _produce_one_placed(
        self, records: PlacedRecords, index: int, on_delivery: DeliveryCallback | None = None
    ) -> None:
        headers = records.headers[index]
        named: dict[str, Any] = {"headers": list(headers)} if headers else {}
        if on_delivery is not None:
            named["on_delivery"] = on_delivery
        place = {"partition": records.partitions[index], "timestamp": _time(records.timestamps[index])}
        self.produce(records.topics[index], records.values[index], key=records.keys[index], **place, **named)

    def _make_room(self) -> None:
        """Make the client send queued records: with many partitions, no batch may be full and `linger.ms` long."""
        self._fork.check("a producer")
        try:
            self._producer.flush(0.05)
        except (KafkaException, SystemError) as error:
            log.debug("flush: %s", error)
        if self.failed_delivery is not None:
            raise self.failed_delivery

    def _refusal(self, error: KafkaException, topic: str) -> ProducerError:
        """Return why a record was refused. Once a transaction has failed, the client's error only says that it has."""
        if error.args[0].code() in (KafkaError._STATE, KafkaError._FATAL):
            try:
                self._ensure_whole()
            except ProducerError as cause:
                return cause
        refusal = producer_error(error)
        if refusal.failure is not Failure.REFUSED_BATCH:
            return ProducerError(refusal.failure, f"{refusal} (record for topic {topic})")
        # The client itself refuses a record that is too large, before it makes a batch.
        return ProducerError(Failure.REFUSED_RECORD, f"{refusal} (record for topic {topic}; {LET_PASS})")

    def flush(self, timeout_s: float) -> None:
        """Wait until every record is acknowledged. Raises ProducerError if a delivery failed or the time is up."""
        self._fork.check("a producer")
        deadline = time.monotonic() + timeout_s
        self._await_last_batch(deadline)
        try:
            left = self._producer.flush(max(0.0, deadline - time.monotonic()))
        except (KafkaException, SystemError) as error:
            raise self._explained(error) from None
        self._ensure_whole()  # first, because it may find why a record was dropped
        if self.failed_delivery is not None:
            raise self.failed_delivery
        if left:
            raise ProducerError(Failure.PASSING, f"{left} records were not acknowledged within {timeout_s:g} s")

    def _ensure_whole(self) -> None:
        """Raise ProducerError if records of an open transaction were refused."""

    def _await_last_batch(self, deadline: float) -> None:
        """Wait until less than a batch is left, as long as full batches are being sent without a flush.

        librdkafka sends one batch of a partition at a time. During a flush, or while its oldest record is older than
        `linger.ms`, its thread polls without a pause until that batch is acknowledged, which takes about a third of all
        processor time of a large transaction. Only the length of its queue shows progress. If there is none, the
        remaining records are spread over partitions without a full batch; this does not wait for that many again.
        """
        left, moved_s = len(self._producer), time.monotonic()
        while left * self._record_bytes >= self._kept_bytes:
            _look_again_in(_LOOK_EVERY_S)
            self.serve(0)
            before, left, now = left, len(self._producer), time.monotonic()
            if left < before:
                moved_s = now
            elif now >= deadline:
                return
            elif now - moved_s >= _STALLED_S:
                self._kept_bytes = left * self._record_bytes + 1

    def drop(self) -> None:
        self._fork.check("a producer")
        producer = self.__dict__.pop("_producer", None)
        if producer is not None:
            try:
                producer.purge(blocking=False)
            except KafkaException:
                pass

    def _explained(self, error: BaseException) -> ProducerError:
        """Wrap an error. A SystemError may have lost the fatal error behind it, so the producer is asked again.

        This tries to begin a transaction. A producer with a fatal error raises that error. Any other producer refuses,
        because a transaction is open, and nothing changes.
        """
        if isinstance(error, SystemError) and error.__cause__ is None:
            try:
                self._producer.begin_transaction()
            except KafkaException as again:
                if again.args[0].fatal():
                    return producer_error(again)
        return producer_error(error)


def _times(timestamps: Sequence[int]) -> Sequence[int]:
    if isinstance(timestamps, Repeated):
        return Repeated(_time(timestamps.value), len(timestamps))
    return [_time(each) for each in timestamps] if 0 in timestamps or NOW in timestamps else timestamps


def _time(timestamp: int) -> int:
    """Return a timestamp as librdkafka takes it, for which 0, the first millisecond of 1970, means now."""
    return 0 if timestamp == NOW else timestamp or 1
