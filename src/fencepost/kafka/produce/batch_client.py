"""`BatchClient`: a transactional producer that sends whole batches and never repeats a request.

An error, a time-out or a lost connection ends the incarnation. After that the client sends nothing more, except the end
of a transaction whose requests were all answered. Two kinds of errors do not end the incarnation: if a broker
answers that it is still busy (`errors.BUSY`), the request is sent again; if the group's coordinator or the client
itself refuses something, the transaction can be aborted.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, murmur2

from fencepost.config import ConfigError
from fencepost.kafka.codec.columns import Content, Encode, PartitionColumns, QueuedRecords, Taken, binary
from fencepost.kafka.codec.committed import CopiedBatch
from fencepost.kafka.codec.compress import NAMES
from fencepost.kafka.codec.encode_columns import encode_columns
from fencepost.kafka.codec.encode_cut import Limits, placed, spare_partitions
from fencepost.kafka.codec.encode_header import EncodedBatch
from fencepost.kafka.codec.encode_rows import rows
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.produce.protocol import Protocol
from fencepost.kafka.produce.transactional_client import (
    LET_PASS,
    OFFSETS_REFUSED,
    Failure,
    ProducerError,
    TransactionalClient,
    classify,
    ensure_checked,
)
from fencepost.kafka.setting.batch_settings import BatchSettings
from fencepost.kafka.value.group_metadata import Committer, committer_of
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.placed import NO_PARTITION, NOW, PlacedRecords
from fencepost.kafka.value.whole import PlacedBatch, placed_records
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import Cluster, Taking
from fencepost.kafka.wire.errors import AnswerError, LostError, TooLargeError, UnsupportedError
from fencepost.record import Repeated, TopicPartition

_CONNECT_AGAIN_S = 0.05
_FINAL = frozenset({KafkaError.INVALID_TRANSACTION_TIMEOUT, KafkaError.UNSUPPORTED_VERSION})


class BatchClient(TransactionalClient):
    """A producer; each `init_transactions` starts a new incarnation. For one thread at a time; `drop` is for any."""

    def __init__(self, conf: Mapping[str, Any], encode: Encode = encode_columns) -> None:
        """`conf` uses librdkafka's names. Raises ProducerError for settings that this client does not support."""
        self._fork = ForkGuard()
        self._encode = encode
        try:
            self._settings, self._access = BatchSettings.of(conf), Access.of(conf)
        except (ConfigError, ValueError, OSError) as error:
            raise ProducerError(Failure.FATAL, str(error)) from None
        self._cluster: Cluster | None = None
        self._protocol: Protocol | None = None
        self._waiting: dict[TopicPartition, QueuedRecords] = {}
        self._queued_bytes = self._queued = 0
        self._sticky: dict[str, int] = {}
        self._begun_offsets: tuple[Sequence[GroupOffset], Committer, float] | None = None
        self._over: ProducerError | None = None
        self._is_dropped = False
        self._strikes: list[str] = []
        self.failed_delivery: ProducerError | None = None

    @property
    def strikes(self) -> int:
        self._fork.check("a producer")
        return len(self._strikes)

    @property
    def last_strike(self) -> str | None:
        return self._strikes[-1] if self._strikes else None

    # --- an incarnation ---------------------------------------------------------------------------------------------

    def init_transactions(self, timeout_s: float) -> None:
        """Start an incarnation with new connections and the next epoch of the transactional id.

        InitProducerId is sent once: after a lost answer, the late first request could fence the second one.
        """
        self._fork.check("a producer")
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                self._open(deadline_s)
                return
            except LostError as error:
                if error.is_sent or time.monotonic() + _CONNECT_AGAIN_S >= deadline_s:
                    raise ProducerError(Failure.PASSING, str(error)) from None
            except AnswerError as error:
                raise _said(error) from None
            except UnsupportedError as error:
                raise ProducerError(Failure.FATAL, str(error)) from None
            time.sleep(_CONNECT_AGAIN_S)

    def _open(self, deadline_s: float) -> None:
        self._let_go()
        self._cluster = Cluster(self._access, self._settings.metadata_age_s)
        self._protocol = Protocol(self._cluster, self._settings, self._encode)
        self._over, self.failed_delivery = None, None
        if self._is_dropped:  # by another thread in the meantime: going on might fence the successor
            self.drop()
            raise _closed()
        self._protocol.open(deadline_s)  # E2

    def _let_go(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()
        self._forget()

    def _forget(self) -> None:
        self._waiting.clear()
        self._sticky.clear()
        self._begun_offsets = None
        self._queued_bytes = self._queued = 0

    def drop(self) -> None:
        self._fork.check("a producer")
        self._is_dropped = True
        self._over = self._over or _closed()
        cluster = self._cluster
        if cluster is not None:
            cluster.close()

    @contextmanager
    def _incarnation(self) -> Iterator[Protocol]:
        """Yield the protocol to send with. Any error in the block ends the incarnation."""
        self._fork.check("a producer")
        if self._over is not None:
            raise self._over
        if self._protocol is None:
            raise ProducerError(Failure.FATAL, "call init_transactions() first")
        try:
            yield self._protocol
        except AnswerError as error:
            raise self._end(_said(error)) from None
        except (LostError, UnsupportedError) as error:
            self.is_slow |= isinstance(error, LostError) and error.is_late and self._protocol.is_answering
            raise self._end(ProducerError(Failure.PASSING, str(error))) from None
        except ProducerError:
            raise
        except BaseException as error:  # such as a callback's: records may not have been sent (E1)
            self._end(ProducerError(Failure.PASSING, f"{type(error).__name__}: {error}"))
            raise

    def _end(self, error: ProducerError) -> ProducerError:
        """End the incarnation. A fenced producer's error is not counted as a strike."""
        if self._over is None:
            self._over = error  # E21
            if error.failure is not Failure.FENCED:
                self._strikes.append(str(error))
        return self._over

    def _deadline_s(self) -> float:
        return time.monotonic() + self._access.answer_s

    # --- records ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        with self._incarnation():
            self._forget()

    def produce(self, topic: str, value: bytes | None, **fields: Any) -> None:
        on_delivery = fields.get("on_delivery")
        records = PlacedRecords(
            [topic],
            [value],
            [fields.get("key")],
            [fields.get("partition", NO_PARTITION)],
            [fields.get("timestamp", NOW)],
            [fields.get("headers") or ()],
            {} if on_delivery is None else {0: on_delivery},
        )
        self.produce_placed(records)

    def produce_column(self, topic: str, values: Sequence[bytes | None]) -> None:
        if len(values):
            with self._incarnation():
                self._add_keyless(topic, PartitionColumns(binary(values), timestamps=_now_ms()))

    def produce_columns(
        self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]
    ) -> None:
        if isinstance(topics, Repeated) and isinstance(keys, Repeated) and keys.value is None:
            self.produce_column(topics.value, values)
            return
        if isinstance(topics, Repeated) and len(values):
            with self._incarnation():
                self._add_keyed(topics.value, values, keys)
            return
        count = len(values)
        if count == 1:
            self._produce_one(topics[0], values[0], keys[0])
            return
        self.produce_placed(
            PlacedRecords(
                topics, values, keys, Repeated(NO_PARTITION, count), Repeated(NOW, count), Repeated((), count)
            )
        )

    def _produce_one(self, topic: str, value: bytes | None, key: bytes | None) -> None:
        """Produce one record. This is mainly for a task's single source offset, which is in every transaction."""
        with self._incarnation():
            place = self._place(topic, key, NO_PARTITION)
            columns = PartitionColumns(binary([value]), None if key is None else binary([key]), _now_ms())
            if isinstance(place, str):
                self._add_keyless(place, columns)
            else:
                self._add_all(columns, partial(_same, place))

    def produce_placed(self, records: PlacedRecords) -> None:
        with self._incarnation():
            records.ensure_even()
            now_ms = _now_ms()
            by_place: dict[TopicPartition | str, list[int]] = {}
            columns = zip(records.topics, records.keys, records.partitions, strict=True)
            for index, (topic, key, partition) in enumerate(columns):
                by_place.setdefault(self._place(topic, key, partition), []).append(index)
            for place, indexes in by_place.items():
                found = _chosen(records, indexes, now_ms)
                if isinstance(place, str):
                    self._add_keyless(place, found)
                else:
                    self._add_all(found, partial(_same, place))

    def _place(self, topic: str, key: bytes | None, partition: int) -> TopicPartition | str:
        """Return the partition of a record; only the topic if the record may go to any partition."""
        count = len(self._leaders(topic))
        if partition != NO_PARTITION:
            if partition >= count:
                raise _refused(KafkaError._UNKNOWN_PARTITION, topic)
            return TopicPartition(topic, partition)
        return topic if key is None else TopicPartition(topic, murmur2(key, count))

    def _leaders(self, topic: str) -> list[int]:
        """Return the leaders of the topic's partitions. Refuses the record if the topic is missing or not permitted."""
        assert self._cluster is not None
        try:
            return self._cluster.leaders(topic, self._deadline_s())
        except AnswerError as error:
            found = _said(AnswerError(error.code, f"record for topic {topic}", error.detail))
            if found.failure in (Failure.REFUSED_RECORD, Failure.DENIED):
                raise found from None  # nothing was sent of it
            raise

    def _taking(self, topic: str) -> Taking:
        assert self._cluster is not None
        return self._cluster.taking(topic, self._deadline_s())

    def _add_keyless(self, topic: str, columns: PartitionColumns) -> None:
        """Fill the batch of one partition after another, as Java's client does."""
        spare = _spare(self._leaders(topic))

        def next_place() -> TopicPartition:
            if topic not in self._sticky:
                self._sticky[topic] = next(spare)
            return TopicPartition(topic, self._sticky[topic])

        self._add_all(columns, next_place)

    def _add_keyed(self, topic: str, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> None:
        """Distribute records by their keys, all at once. Records without a key go to one partition after another."""
        settings = self._settings
        leaders = self._leaders(topic)
        made = rows(binary(values), now_ms=_now_ms(), keys=binary(keys))
        limits = Limits(settings.record_bytes, settings.batch_bytes, settings.batch_records)
        for partition, part in placed(made, limits, len(leaders), _spare(leaders)):
            columns = PartitionColumns(part.values, part.keys, part.timestamps)
            self._add_all(columns, partial(_same, TopicPartition(topic, partition)))

    def _add_all(self, columns: PartitionColumns, next_place: Callable[[], TopicPartition]) -> None:
        self._ensure_sendable(next_place().topic, columns)
        while len(columns.values):
            taken = self._add_some(next_place(), columns)
            columns = columns.part(taken, len(columns.values))

    def produce_whole(self, batches: Sequence[PlacedBatch]) -> None:
        """Queue whole batches. A batch that the topic cannot take unchanged is queued as records."""
        with self._incarnation():
            for placed in batches:
                if placed.place.partition >= len(self._leaders(placed.place.topic)):
                    raise _refused(KafkaError._UNKNOWN_PARTITION, placed.place.topic)
                if isinstance(placed.batch, CopiedBatch) and self._is_whole(placed.place.topic, placed.batch.batch):
                    self._add_taken(placed.place, Taken(placed.batch.batch, placed.callbacks))
                else:
                    columns = _chosen(placed_records(placed), range(placed.batch.count), _now_ms())
                    self._add_all(columns, partial(_same, placed.place))
            if any(waiting.is_due for waiting in self._waiting.values()) or self._is_queue_full:
                self._send_waiting(list(self._waiting), self._deadline_s(), whole=False)

    def _is_whole(self, topic: str, batch: EncodedBatch) -> bool:
        """Return whether a batch may be sent unchanged. If the topic's limit cannot be read, this guesses cautiously.

        False if the broker would recompress the batch, because the result may be too large.
        """
        limit, compression = self._taking(topic)
        most_bytes = min(self._settings.record_bytes, self._settings.batch_bytes if limit is None else limit)
        is_kept = batch.codec == 0 or compression in (None, NAMES[batch.codec])
        return is_kept and len(batch) <= most_bytes

    def _add_taken(self, place: TopicPartition, taken: Taken) -> None:
        self._waiting_at(place).add_taken(taken)
        self._queued += taken.rows
        self._queued_bytes += taken.own_bytes()

    def _waiting_at(self, place: TopicPartition) -> QueuedRecords:
        if place not in self._waiting:
            limit = self._taking(place.topic).most_bytes
            if limit is None:  # not readable: assume the default limit
                limit = self._settings.record_bytes
            self._waiting[place] = QueuedRecords(self._settings.batch_bytes, self._settings.batch_records, limit)
        return self._waiting[place]

    @property
    def _is_queue_full(self) -> bool:
        return self._queued >= self._settings.queue_records or self._queued_bytes >= self._settings.queue_bytes

    def _add_some(self, place: TopicPartition, columns: PartitionColumns) -> int:
        """Queue as many records as fit in a batch, and send what is due. Returns how many were queued."""
        waiting = self._waiting_at(place)
        before = waiting.own_bytes
        taken = waiting.add(columns)
        self._queued += taken
        self._queued_bytes += waiting.own_bytes - before
        if waiting.is_due:
            self._send_waiting([place], self._deadline_s(), whole=False)
        elif self._is_queue_full:
            self._send_waiting(list(self._waiting), self._deadline_s(), whole=True)
        return taken

    def _ensure_sendable(self, topic: str, columns: PartitionColumns) -> None:
        limit = self._settings.record_bytes
        if columns.most_bytes() > limit and pc.max(columns.sizes()).as_py() > limit:
            error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
            text = f"{error.name()}: {error.str()} (record for topic {topic}; {LET_PASS})"
            raise ProducerError(Failure.REFUSED_RECORD, text)

    def _send_waiting(self, places: Sequence[TopicPartition], deadline_s: float, *, whole: bool) -> None:
        """Send what is queued for these partitions, one batch of each at a time; without `whole`, full batches only.

        All partitions with queued records join the transaction together.
        """
        assert self._protocol is not None
        self._protocol.join([place for place, waiting in self._waiting.items() if waiting.count], deadline_s)
        of_places = [[(place, batch) for batch in self._take(place, whole=whole)] for place in places]
        for turn in zip_longest(*of_places):
            batches = [self._protocol.encoded(*each) for each in turn if each is not None]
            self._protocol.produce(batches, deadline_s)

    def _take(self, place: TopicPartition, *, whole: bool) -> list[Content]:
        waiting = self._waiting[place]
        before, count = waiting.own_bytes, waiting.count
        found = waiting.take(whole=whole)
        self._queued_bytes -= before - waiting.own_bytes
        self._queued -= count - waiting.count
        if self._sticky.get(place.topic) == place.partition:
            del self._sticky[place.topic]
        return found

    def flush(self, timeout_s: float) -> None:
        if self.failed_delivery is not None:
            raise self.failed_delivery
        deadline_s = time.monotonic() + timeout_s
        with self._incarnation() as protocol:
            if any(waiting.count for waiting in self._waiting.values()):
                self._send_waiting(list(self._waiting), deadline_s, whole=True)
            protocol.settle(deadline_s)

    # --- the end ----------------------------------------------------------------------------------------------------

    def begin_offsets(self, offsets: Sequence[GroupOffset], group_metadata: Any, timeout_s: float) -> None:
        ensure_checked(offsets)  # E10
        with self._incarnation() as protocol:
            committer = committer_of(group_metadata)
            places = [place for place, waiting in self._waiting.items() if waiting.count]
            protocol.begin_offsets(offsets, committer, places, time.monotonic() + timeout_s)
            self._begun_offsets = (offsets, committer, timeout_s)

    def await_offsets(self) -> None:
        self._fork.check("a producer")
        begun, self._begun_offsets = self._begun_offsets, None
        if begun is None:
            return
        offsets, committer, timeout_s = begun
        deadline_s = time.monotonic() + timeout_s
        self.flush(timeout_s)
        with self._incarnation() as protocol:
            try:
                protocol.offsets(offsets, committer, deadline_s)
            except AnswerError as error:
                found = _said(error)
                if error.code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    found = ProducerError(Failure.PASSING, f"{OFFSETS_REFUSED}: {found}")
                elif found.failure is not Failure.MEMBERSHIP:
                    raise
                raise found from None  # E4: the transaction can be aborted, and its producer continues

    def commit(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        self.flush(timeout_s)  # usually done already: the end must not follow a batch that may be refused
        with self._incarnation() as protocol:
            protocol.end(is_commit=True, deadline_s=deadline_s)

    def abort(self, timeout_s: float) -> None:
        """Abort if every request of the transaction was answered. Otherwise the next holder of the id aborts it."""
        self._fork.check("a producer")
        self._forget()
        deadline_s = time.monotonic() + timeout_s
        over, self._over = self._over, None
        try:
            with self._incarnation() as protocol:
                is_refused = protocol.drain(deadline_s)
                if over is not None and over.failure is Failure.FENCED:
                    raise over
                self._end_aborted(protocol, deadline_s, is_refused=is_refused)
        finally:
            self._over = over or self._over

    def _end_aborted(self, protocol: Protocol, deadline_s: float, *, is_refused: bool) -> None:
        """Abort the transaction. If a refusal was found only now, the incarnation ends too.

        The transaction may then not have begun: a coordinator that is still ending the previous transaction treats
        the abort as one of an older producer.
        """
        try:
            protocol.end(is_commit=False, deadline_s=deadline_s)
        except AnswerError as error:
            if is_refused:
                raise self._end(ProducerError(Failure.PASSING, str(error))) from None
            raise
        if is_refused:
            self._end(ProducerError(Failure.PASSING, "something was refused in a transaction that was aborted"))


def _said(error: AnswerError) -> ProducerError:
    """Convert an error answer to a ProducerError, with librdkafka's text."""
    said = KafkaError(error.code)
    failure = Failure.FATAL if error.code in _FINAL else classify(said)
    if isinstance(error, TooLargeError):
        failure = Failure.REFUSED_RECORD
    detail = f": {error.detail}" if error.detail else ""
    return ProducerError(failure, f"{said.name()}: {said.str()} ({error.what}{detail})")


def _refused(code: int, topic: str) -> ProducerError:
    return _said(AnswerError(code, f"record for topic {topic}"))


def _closed() -> ProducerError:
    return ProducerError(Failure.PASSING, "the producer is closed")


def _spare(leaders: Sequence[int]) -> Iterator[int]:
    """Yield, in turn, the partitions with a leader, for records that may go to any partition."""
    led = [partition for partition, leader in enumerate(leaders) if leader >= 0]
    return (led[turn] for turn in spare_partitions(len(led), time.monotonic_ns() % len(led)))


def _same(place: TopicPartition) -> TopicPartition:
    return place


def _now_ms() -> int:
    return int(time.time() * 1000)


def _chosen(records: PlacedRecords, indexes: Sequence[int], now_ms: int) -> PartitionColumns:
    """Return some of the records as columns."""

    def of(column: Sequence[Any]) -> list[Any]:
        return [column[index] for index in indexes]

    keys, headers, callbacks = of(records.keys), of(records.headers), records.callbacks
    times = [now_ms if each == NOW else each for each in of(records.timestamps)]
    return PartitionColumns(
        binary(of(records.values)),
        binary(keys) if any(key is not None for key in keys) else None,
        times[0] if len(set(times)) == 1 else pa.array(times, pa.int64()),
        headers if any(headers) else None,
        {at: callbacks[index] for at, index in enumerate(indexes) if index in callbacks} if callbacks else {},
    )
