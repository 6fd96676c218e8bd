"""A producer that knows what happened to it: strikes, failed deliveries, and forks.

librdkafka resends transactional requests by itself and says so nowhere but in its log. `ProducerClient` reads that
log: a line `REQTMOUT` or `FAIL` of an established connection is a *strike* (E5).
"""

import logging
import re
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

# A connection that never came to be. Not so the states after it (APIVERSION_QUERY, SSL_HANDSHAKE, AUTH_...): nothing
# transactional was sent there either, but librdkafka suppresses a third line of the same text, whatever the state was,
# and the text of a lost connection is the same in all of them: the next one would not be seen.
_BEFORE_CONNECTED = re.compile(r"in state (INIT|TRY_CONNECT|CONNECT)\b")

_REFUSED_CONNECTION = re.compile(r"SASL authentication error|certificate verify failed")
_MOST_REFUSALS = 3
_INIT_S = 2.0


def producer_error(error: BaseException) -> ProducerError:
    """Wrap what the client raised; a SystemError has the Kafka error as its cause."""
    if isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return ProducerError(classify(error.args[0]), f"{error.args[0].name()}: {error.args[0].str()}")
    return ProducerError(Failure.FATAL, str(error))


class StrikeLog(logging.Handler):
    """Receives librdkafka's log lines and counts the strikes among them (E5).

    `has_failed_transaction` is set by the line that tells that the open transaction wants to be aborted, `refusals` are
    the lines of brokers, or certificates, that would not have us: the client goes on trying and reports a time-out.
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
        if self._is_strike(line):
            self.strikes += 1
            self.last_strike = line
            if _REFUSED_CONNECTION.search(line) is not None:
                self.refusals.append(line.partition(": ")[2])
        log.debug("librdkafka: %s", line)

    @staticmethod
    def _is_strike(line: str) -> bool:
        if line.startswith("REQTMOUT"):
            return True
        return line.startswith("FAIL") and _BEFORE_CONNECTED.search(line) is None


_look_again_in = time.sleep
_LOOK_EVERY_S = 0.0005
_STALLED_S = 0.2
_LOOK_FOR_STRIKES_S = 0.1
_STRUCK_S = 3.0
_LOOK_FOR_TOPICS_S = 2.0
_NO_CALLBACK = Repeated(None, sys.maxsize)


@dataclass(frozen=True)
class _Adding:
    """Offsets of a group on their way into a transaction."""

    done: Future[None]
    topics: frozenset[str]
    timeout_s: float
    give_up_at: float


class ProducerClient(TransactionalClient):
    """One librdkafka producer. Not thread-safe beyond what librdkafka is; bound to the process that made it (E8)."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """`conf` holds librdkafka's names. Raises ProducerError where librdkafka refuses it."""
        self._fork = ForkGuard()
        self._strikes = StrikeLog()
        logger = logging.Logger("librdkafka")
        logger.addHandler(self._strikes)
        self.failed_delivery: ProducerError | None = None
        self._is_transactional = "transactional.id" in conf
        self._is_in_transaction = False
        self._adding: _Adding | None = None
        self._watched: set[tuple[str, int | None]] = set()
        self._record_bytes = 0  # of one of those sent last
        self._kept_bytes = int(conf.get("batch.size", 1_000_000))  # what may stay queued until it is flushed
        # A callback costs a turn of the interpreter's lock for each record, also where it is called for errors only,
        # and the task's thread wants that lock. In a transaction the client itself refuses to commit without a record.
        callback = {} if self._is_transactional else {"on_delivery": self._delivered}
        try:
            self._producer = Producer({**conf, **callback}, logger=logger)
        except KafkaException as error:
            raise producer_error(error) from None

    @property
    def strikes(self) -> int:
        """Serve the log, then return how many strikes it has told of so far."""
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
        """Serve callbacks and log lines; a fatal error surfaces at the next real call."""
        self._fork.check("a producer")
        try:
            self._producer.poll(timeout_s)
        except (KafkaException, SystemError) as error:
            log.debug("poll: %s", error)

    def produce(self, topic: str, value: bytes | None, **fields: Any) -> None:
        """Enqueue one record, waiting while the queue is full. Raises ProducerError.

        `on_delivery(error, message)`, when given, is called besides the client's own accounting; for successes only
        where `delivery.report.only.error` is off.
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
        """Say whether a record is the transaction's first for a topic, or a partition that was chosen for it.

        Its fate tells why these are refused: the client finds out by itself, and then the error is the record's alone.
        """
        if not self._is_transactional or (topic, partition) in self._watched:
            return False
        self._watched.add((topic, partition))
        return True

    def produce_column(self, topic: str, values: Sequence[bytes | None]) -> None:
        """Enqueue values without keys, in order. Raises ProducerError."""
        self._fork.check("a producer")
        if not len(values):
            return
        self._record_bytes = len(values[0] or b"")
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

    def produce_columns(
        self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]
    ) -> None:
        """Enqueue records of a topic, a value and a key each, in order. Raises ProducerError."""
        self._fork.check("a producer")
        if not len(values):
            return
        last = None
        self._record_bytes = len(values[0] or b"")
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
        """Enqueue records that say more than topic, key and value, in order. Raises ProducerError."""
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
        """Return which records are, of these, the first of a place that has had none in the transaction."""
        if not (self._is_transactional and len(records.values)):
            return
        places = [(records.topics[0], records.partitions[0])]
        if not (isinstance(records.topics, Repeated) and isinstance(records.partitions, Repeated)):
            places = list(zip(records.topics, records.partitions, strict=True))
        for place in set(places) - self._watched:
            yield places.index(place)

    def _produce_run(self, records: PlacedRecords, start: int, stop: int) -> int:
        """Enqueue records from `start` on, up to `stop` or where the queue is full. Returns the first that is not.

        The client's method is called by `map`: a step of Python's for each record, and arguments by their names, would
        double what it costs.
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
        """Have batches made of what is there: with many partitions none may be full, and `linger.ms` may be long."""
        self._fork.check("a producer")
        try:
            self._producer.flush(0.05)
        except (KafkaException, SystemError) as error:
            log.debug("flush: %s", error)
        if self.failed_delivery is not None:
            raise self.failed_delivery

    def _refusal(self, error: KafkaException, topic: str) -> ProducerError:
        """Return why a record was not taken: once a transaction has failed, every further record is told so only."""
        if self._is_in_transaction and error.args[0].code() in (KafkaError._STATE, KafkaError._FATAL):
            try:
                self._ensure_whole()
            except ProducerError as cause:
                return cause
        refusal = producer_error(error)
        if refusal.failure is not Failure.REFUSED_BATCH:
            return ProducerError(refusal.failure, f"{refusal} (record for topic {topic})")
        # What is too large was refused by the client itself, before there was a batch.
        return ProducerError(Failure.REFUSED_RECORD, f"{refusal} (record for topic {topic}; {LET_PASS})")

    def flush(self, timeout_s: float) -> None:
        """Wait until every record is acknowledged. Raises ProducerError: a delivery failed, or time is up."""
        self._fork.check("a producer")
        deadline = time.monotonic() + timeout_s
        self._await_last_batch(deadline)
        try:
            left = self._producer.flush(max(0.0, deadline - time.monotonic()))
        except (KafkaException, SystemError) as error:
            raise self._explained(error) from None
        if self._is_in_transaction:
            self._ensure_whole()  # first: what it finds may be why a record was dropped
        if self.failed_delivery is not None:
            raise self.failed_delivery
        if left:
            raise ProducerError(Failure.PASSING, f"{left} records were not acknowledged within {timeout_s:g} s")

    def _await_last_batch(self, deadline: float) -> None:
        """Wait until less than a batch is left, as far as full batches are being sent by themselves.

        librdkafka has one batch of a partition under way at a time, and while it is asked to flush, or its oldest
        record is older than `linger.ms`, its thread polls without a pause until that one is acknowledged: about a third
        of all processor time of a large transaction. Only the length of its queue tells that it gets on. Where it does
        not, what is left is spread over partitions, none of which has a full batch; so much is not waited for again.
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
        """Raise ProducerError where records of the open transaction were refused.

        Beginning a transaction tells: it is refused in any case while one is open, with the error that has made
        librdkafka want that one to be aborted, if there is such an error. Its log says whether there is one: asked only
        then, since the client keeps an error for ever for each that it raises (confluent-kafka 2.16.1).
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
        """Fence the predecessor and end its transaction; retries what is passing until `timeout_s` is over.

        Wrong credentials do not pass: they are reported as soon as brokers have refused them a few times.
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
        """Begin to add offsets of a consumer group to the transaction, beside what is sent; `await_offsets` ends it.

        Raises ValueError without an offset of 0 or more: librdkafka would then say that all is well without asking the
        coordinator whether the member is current (E4); ProducerError where this machine gives no more threads just now.
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
        """Wait until offsets that were begun are in the transaction. Raises ProducerError where they may not be.

        A producer that has done so before and then loses its broker may wait for the group's coordinator for ever,
        whatever the time-out (librdkafka 2.16): it is given up when its time is over, or `_STRUCK_S` after a strike.
        Nor does it tell that a topic is gone, but asks on and on: it is given up then, too. Its request may still be
        sent, under an epoch that is fenced by then.
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
        """Raise ProducerError where topics are not there any more; nothing where nobody says so."""
        try:
            found = self._producer.list_topics(timeout=_LOOK_FOR_TOPICS_S).topics  # all: to ask for one may create it
        except KafkaException as error:
            log.debug("looking for topics: %s", error)
            return
        if gone := sorted(topics - found.keys()):
            raise ProducerError(Failure.PASSING, f"{OFFSETS_REFUSED}: there is no topic {', '.join(gone)} any more")

    def _leave_offsets(self) -> None:
        """Let go of offsets that were begun, after a while: until then the client would refuse what comes next."""
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
        """Let go of the client without flushing, committing or aborting anything (E6). Idempotent."""
        self._fork.check("a producer")
        producer = self.__dict__.pop("_producer", None)
        if producer is not None:
            try:
                producer.purge(blocking=False)
            except KafkaException:
                pass

    def _call(self, name: str, *arguments: Any) -> None:
        """Call the producer's method; by name, so that no frame in an error's traceback keeps the producer alive.

        A caller that closes the writer while it handles the error would else leave librdkafka sending (E6).
        """
        try:
            getattr(self._producer, name)(*arguments)
        except (KafkaException, SystemError) as error:
            raise self._explained(error) from None

    def _explained(self, error: BaseException) -> ProducerError:
        """Wrap an error. A SystemError may have lost the fatal error that it stands for: the producer is asked again.

        Beginning a transaction tells: a producer with a fatal error answers with that, any other refuses or has no
        transaction to begin while one is open, and changes nothing.
        """
        if isinstance(error, SystemError) and error.__cause__ is None:
            try:
                self._producer.begin_transaction()
            except KafkaException as again:
                if again.args[0].fatal():
                    return producer_error(again)
        return producer_error(error)
