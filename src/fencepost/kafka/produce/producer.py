"""A librdkafka producer that tracks its strikes (`strike_log.py`), failed deliveries and forks."""

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, wait
from dataclasses import dataclass
from operator import length_hint
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.produce.strike_log import StrikeLog
from fencepost.kafka.produce.transactional_client import (
    LET_PASS,
    OFFSETS_REFUSED,
    Failure,
    ProducerError,
    TransactionalClient,
    classify,
    ensure_checked,
)
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.placed import DeliveryCallback, PlacedRecords
from fencepost.record import Repeated

log = logging.getLogger(__name__)

_MOST_REFUSALS = 3
_INIT_S = 2.0
_look_again_in = time.sleep
_LOOK_EVERY_S = 0.0005
_STALLED_S = 0.2
_LOOK_FOR_STRIKES_S = 0.1
_STRUCK_S = 3.0
_LOOK_FOR_TOPICS_S = 2.0
_NO_CALLBACK = Repeated(None, sys.maxsize)


def producer_error(error: BaseException) -> ProducerError:
    """Wrap an exception of the client. A SystemError has the Kafka error as its cause."""
    if isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return ProducerError(classify(error.args[0]), f"{error.args[0].name()}: {error.args[0].str()}")
    return ProducerError(Failure.FATAL, str(error))


@dataclass(frozen=True)
class _Adding:
    """Offsets of a group that are being added to a transaction."""

    done: Future[None]
    topics: frozenset[str]
    timeout_s: float
    give_up_at: float


class ProducerClient(TransactionalClient):
    """One librdkafka producer, as thread-safe as librdkafka is. Bound to the process that created it (E8)."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """`conf` uses librdkafka's names. Raises ProducerError if librdkafka refuses it."""
        self._fork = ForkGuard()
        self._strikes = StrikeLog()
        logger = logging.Logger("librdkafka")
        logger.addHandler(self._strikes)
        self.failed_delivery: ProducerError | None = None
        self._is_transactional = "transactional.id" in conf
        self._is_in_transaction = False
        self._adding: _Adding | None = None
        self._watched: set[tuple[str, int | None]] = set()
        self._record_bytes = 0  # of one of the last records
        self._kept_bytes = int(conf.get("batch.size", 1_000_000))  # what may stay queued until it is flushed
        # A callback takes the interpreter's lock once per record, even if it is called for errors only, and the task's
        # thread needs that lock. In a transaction the client itself refuses to commit if a record is missing.
        callback = {} if self._is_transactional else {"on_delivery": self._delivered}
        try:
            self._producer = Producer({**conf, **callback}, logger=logger)
        except KafkaException as error:
            raise producer_error(error) from None

    @property
    def strikes(self) -> int:
        """Process the log, then return the number of strikes in it so far."""
        self.serve(0)
        return self._strikes.strikes

    @property
    def last_strike(self) -> str | None:
        return self._strikes.last_strike

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
        """Enqueue one record, waiting while the queue is full. Raises ProducerError.

        `on_delivery(error, message)`, if given, is called in addition to the client's own accounting. It is called for
        successes only if `delivery.report.only.error` is off.
        """
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
        if not self._is_transactional or (topic, partition) in self._watched:
            return False
        self._watched.add((topic, partition))
        return True

    def produce_columns(
        self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]
    ) -> None:
        """Enqueue records with a value and a key, in order. Raises ProducerError."""
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
                del produce  # see `_call`
                self.produce(topic, value)  # once there is room
                produce = self._producer.produce
            except KafkaException as error:
                del produce  # see `_call`
                raise self._refusal(error, topic) from None

    def _produce_keyed(
        self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]
    ) -> None:
        last = None
        watched = self._watched if self._is_transactional else None
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
                del produce  # see `_call`
                self.produce(topic, value, key=key)  # once there is room
                produce = self._producer.produce
            except ProducerError:
                del produce
                raise
            except KafkaException as error:
                del produce
                raise self._refusal(error, topic) from None

    def produce_placed(self, records: PlacedRecords) -> None:
        """Enqueue records with more fields than topic, key and value, in order. Raises ProducerError."""
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
        """Yield the indexes of records that are the first of their place in the transaction."""
        if not (self._is_transactional and len(records.values)):
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
        columns = (records.keys, records.partitions, _NO_CALLBACK, _NO_CALLBACK, records.timestamps)
        try:
            deque(
                map(
                    self._producer.produce,  # in no variable, see `_call`
                    records.topics[part],
                    left,
                    *(column[part] for column in columns),
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
        place = {"partition": records.partitions[index], "timestamp": records.timestamps[index]}
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
        if self._is_in_transaction and error.args[0].code() in (KafkaError._STATE, KafkaError._FATAL):
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
        if self._is_in_transaction:
            self._ensure_whole()  # first, because it may find why a record was dropped
        if self.failed_delivery is not None:
            raise self.failed_delivery
        if left:
            raise ProducerError(Failure.PASSING, f"{left} records were not acknowledged within {timeout_s:g} s")

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

    def _ensure_whole(self) -> None:
        """Raise ProducerError if records of the open transaction were refused.

        This tries to begin another transaction. While one is open that always fails, with the error for which
        librdkafka requires an abort, if there is such an error. It is tried only when the log shows such an error,
        because the client leaks memory for each error that it raises (confluent-kafka 2.16.1).
        """
        self.serve(0)
        if not self._strikes.has_failed_transaction:
            return
        self._leave_offsets()
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            if error.args[0].txn_requires_abort() or error.args[0].fatal():
                raise producer_error(error) from None

    def init_transactions(self, timeout_s: float) -> None:
        """Fence the predecessor and end its transaction. Retries temporary errors until `timeout_s` is over.

        Wrong credentials are not temporary: they are reported once brokers have refused them a few times.
        """
        self._fork.check("a producer")
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._producer.init_transactions(max(0.1, min(_INIT_S, deadline - time.monotonic())))
                return
            except KafkaException as error:
                wrapped = producer_error(error)
                self._ensure_welcome()
                if not error.args[0].retriable() or time.monotonic() >= deadline:
                    raise wrapped from None

    def _ensure_welcome(self) -> None:
        self.serve(0)
        if len(self._strikes.refusals) >= _MOST_REFUSALS:
            raise ProducerError(Failure.DENIED, self._strikes.refusals[-1]) from None

    def begin(self) -> None:
        self._fork.check("a producer")
        self._call("begin_transaction")
        self._strikes.has_failed_transaction = False
        self._watched.clear()
        self._is_in_transaction = True

    def begin_offsets(self, offsets: Sequence[GroupOffset], group_metadata: Any, timeout_s: float) -> None:
        """Start adding offsets of a consumer group to the transaction while records are sent. See `await_offsets`.

        Raises ValueError without an offset of 0 or more: librdkafka would then report success without asking the
        coordinator whether the member is current (E4). Raises ProducerError if no thread can be started now.
        """
        self._fork.check("a producer")
        ensure_checked(offsets)  # E10
        positions = [TopicPartition(*each) for each in offsets]
        done: Future[None] = Future()

        def call() -> None:
            try:
                self._call("send_offsets_to_transaction", positions, group_metadata, timeout_s)
                done.set_result(None)
            except Exception as error:
                done.set_exception(error)

        try:
            threading.Thread(target=call, name="group offsets", daemon=True).start()
        except RuntimeError as error:
            raise ProducerError(Failure.PASSING, f"the group's offsets are not sent: {error}") from None
        topics = frozenset(each.topic for each in offsets)
        self._adding = _Adding(done, topics, timeout_s, time.monotonic() + timeout_s)

    def await_offsets(self) -> None:
        """Wait until the offsets of `begin_offsets` are in the transaction. Raises ProducerError if they may not be.

        A producer that has added offsets before and then loses its broker may wait for the group's coordinator for
        ever, whatever the time-out (librdkafka 2.16). So this stops waiting when the time is over, or `_STRUCK_S` after
        a strike. librdkafka also retries without end if a topic is gone; this then stops waiting, too. The request
        may still be sent later, with an epoch that is fenced by then.
        """
        adding, self._adding = self._adding, None
        if adding is None:
            return
        give_up_at, look_at = adding.give_up_at, time.monotonic() + _LOOK_FOR_TOPICS_S
        while not wait([adding.done], _LOOK_FOR_STRIKES_S).done:
            if self.strikes:
                give_up_at = min(give_up_at, time.monotonic() + _STRUCK_S)
            elif time.monotonic() > look_at:
                self._ensure_topics(adding.topics)
                look_at = time.monotonic() + _LOOK_FOR_TOPICS_S
            if time.monotonic() > give_up_at:
                why = self.last_strike or f"no answer within {adding.timeout_s:g} s"
                raise ProducerError(Failure.PASSING, f"{OFFSETS_REFUSED}: {why}")
        adding.done.result()

    def _ensure_topics(self, topics: Set[str]) -> None:
        """Raise ProducerError if a broker reports that topics no longer exist. Without an answer, do nothing."""
        try:
            found = self._producer.list_topics(timeout=_LOOK_FOR_TOPICS_S).topics  # all: asking for one may create it
        except KafkaException as error:
            log.debug("looking for topics: %s", error)
            return
        if gone := sorted(topics - found.keys()):
            raise ProducerError(Failure.PASSING, f"{OFFSETS_REFUSED}: topic {', '.join(gone)} no longer exists")

    def _leave_offsets(self) -> None:
        """Stop waiting for begun offsets, after a grace time in which the client would refuse the next call."""
        adding, self._adding = self._adding, None
        if adding is not None:
            wait([adding.done], _STRUCK_S)

    def commit(self, timeout_s: float) -> None:
        self._fork.check("a producer")
        self._call("commit_transaction", timeout_s)
        self._is_in_transaction = False

    def abort(self, timeout_s: float) -> None:
        self._fork.check("a producer")
        self._leave_offsets()
        self._call("abort_transaction", timeout_s)
        self._is_in_transaction = False

    def drop(self) -> None:
        """Drop the client without flushing, committing or aborting anything (E6). Idempotent."""
        self._fork.check("a producer")
        producer = self.__dict__.pop("_producer", None)
        if producer is not None:
            try:
                producer.purge(blocking=False)
            except KafkaException:
                pass

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a method of the producer by name, so that no frame in an error's traceback keeps the producer alive.

        Otherwise librdkafka would keep sending after a caller that handles the error has closed the writer (E6).
        """
        try:
            getattr(self._producer, name)(*arguments)
        except (KafkaException, SystemError) as error:
            raise self._explained(error) from None

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
