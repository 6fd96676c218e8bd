"""The records of a batch client: which partition each goes to, and when their batches are sent."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, murmur2

from fencepost.config import ConfigError
from fencepost.kafka.codec.columns import Content, PartitionColumns, QueuedRecords, Taken, binary, rows
from fencepost.kafka.codec.committed import CopiedBatch
from fencepost.kafka.codec.compress import NAMES
from fencepost.kafka.codec.encode_cut import Limits, placed, spare_partitions
from fencepost.kafka.codec.encode_header import EncodedBatch
from fencepost.kafka.errors import AnswerError
from fencepost.kafka.produce.incarnation import Incarnation, error_of_answer
from fencepost.kafka.produce.protocol import Protocol
from fencepost.kafka.produce.transactional_client import LET_PASS, Failure, ProducerError, RecordProducer
from fencepost.kafka.produce.written_runs import WrittenRuns
from fencepost.kafka.setting.batch_settings import BatchSettings
from fencepost.kafka.value.whole import NO_PARTITION, NOW, PlacedBatch, PlacedRecords, placed_records
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import Cluster, Taking
from fencepost.record import BinaryColumn, HeaderBytes, Repeated, TopicPartition, is_missing, picked


class BatchQueue:
    """Records that wait in batches, by partition."""

    def __init__(self, settings: BatchSettings, most_bytes: Callable[[str], int | None]) -> None:
        """`most_bytes` returns the largest batch that a topic takes; None if that cannot be read."""
        self._settings = settings
        self._most_bytes = most_bytes
        self._waiting: dict[TopicPartition, QueuedRecords] = {}
        self._sticky: dict[str, int] = {}
        self._bytes = self._count = 0

    def clear(self) -> None:
        self._waiting.clear()
        self._sticky.clear()
        self._bytes = self._count = 0

    @property
    def is_full(self) -> bool:
        return self._count >= self._settings.queue_records or self._bytes >= self._settings.queue_bytes

    @property
    def has_due(self) -> bool:
        return any(waiting.is_due for waiting in self._waiting.values())

    def is_due(self, place: TopicPartition) -> bool:
        return self._waiting[place].is_due

    def seen(self) -> list[TopicPartition]:
        """Return the partitions of the transaction so far, with queued records or without."""
        return [*self._waiting]

    def filled(self) -> list[TopicPartition]:
        """Return the partitions with queued records."""
        return [place for place, waiting in self._waiting.items() if waiting.count]

    def any_partition(self, topic: str, spare: Iterator[int]) -> TopicPartition:
        """Return the partition whose batch is being filled with records that may go to any; at first a spare one."""
        if topic not in self._sticky:
            self._sticky[topic] = next(spare)
        return TopicPartition(topic, self._sticky[topic])

    def add(self, place: TopicPartition, columns: PartitionColumns) -> int:
        """Queue as many records as fit in a batch. Returns how many were queued."""
        waiting = self._at(place)
        before = waiting.own_bytes
        taken = waiting.add(columns)
        self._count += taken
        self._bytes += waiting.own_bytes - before
        return taken

    def add_taken(self, place: TopicPartition, taken: Taken) -> None:
        """Queue a whole batch."""
        self._at(place).add_taken(taken)
        self._count += taken.rows
        self._bytes += taken.own_bytes()

    def take(self, place: TopicPartition, *, whole: bool) -> list[Content]:
        """Remove and return the batches of a partition; without `whole`, full batches only."""
        waiting = self._waiting[place]
        before, count = waiting.own_bytes, waiting.count
        found = waiting.take(whole=whole)
        self._bytes -= before - waiting.own_bytes
        self._count -= count - waiting.count
        if self._sticky.get(place.topic) == place.partition:
            del self._sticky[place.topic]
        return found

    def _at(self, place: TopicPartition) -> QueuedRecords:
        if place not in self._waiting:
            limit = self._most_bytes(place.topic)
            if limit is None:  # not readable: assume the default limit
                limit = self._settings.record_bytes
            self._waiting[place] = QueuedRecords(self._settings.batch_bytes, self._settings.batch_records, limit)
        return self._waiting[place]


class BatchRecords(RecordProducer):
    """Queues records for their partitions, and sends batches that are full."""

    def __init__(self, conf: Mapping[str, Any], runs: WrittenRuns | None = None) -> None:
        """`conf` uses librdkafka's names. Raises ProducerError for settings that this client does not support.

        `runs` gets what is queued.
        """
        try:
            self._settings, self._access = settings, access = BatchSettings.of(conf), Access.of(conf)
        except (ConfigError, ValueError, OSError) as error:
            raise ProducerError(Failure.FATAL, str(error)) from None
        self._incarnation = Incarnation(lambda: Protocol(Cluster(access, settings.metadata_age_s), settings))
        self._queue = BatchQueue(settings, lambda topic: self._taking(topic).most_bytes)
        self._runs = runs
        self.failed_delivery: ProducerError | None = None

    @property
    def strikes(self) -> int:
        self._incarnation.fork.check("a producer")
        return len(self._incarnation.strikes)

    @property
    def last_strike(self) -> str | None:
        return self._incarnation.strikes[-1] if self._incarnation.strikes else None

    def drop(self) -> None:
        self._incarnation.drop()

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

    def produce_columns(
        self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]
    ) -> None:
        count = len(values)
        if not count:
            return
        if isinstance(topics, Repeated):
            with self._incarnation.sending():
                if isinstance(keys, Repeated) and keys.value is None:
                    self._add_keyless(topics.value, PartitionColumns(binary(values), timestamps=_now_ms()))
                else:
                    self._add_keyed(topics.value, values, keys, ())
        elif count == 1:  # mainly a task's single source offset, which is in every transaction
            key, value = keys[0], binary([values[0]])
            with self._incarnation.sending():
                place = self._place(topics[0], key, NO_PARTITION)
                self._add(place, PartitionColumns(value, None if key is None else binary([key]), _now_ms()))
        else:
            none, now, bare = Repeated(NO_PARTITION, count), Repeated(NOW, count), Repeated((), count)
            self.produce_placed(PlacedRecords(topics, values, keys, none, now, bare))

    def produce_placed(self, records: PlacedRecords) -> None:
        with self._incarnation.sending():
            records.ensure_even()
            if _differ_in_keys_and_values_only(records):
                self._add_keyed(records.topics[0], records.values, records.keys, records.headers[0])
                return
            now_ms = _now_ms()
            for place, indexes in self._by_place(records).items():
                self._add(place, _chosen(records, indexes, now_ms))

    def _by_place(self, records: PlacedRecords) -> dict[TopicPartition | str, Sequence[int]]:
        if isinstance(records.topics, Repeated) and isinstance(records.partitions, Repeated) and len(records.values):
            return self._by_key(records.topics.value, records.partitions.value, records.keys)
        found: dict[TopicPartition | str, list[int]] = {}
        columns = zip(records.topics, records.keys, records.partitions, strict=True)
        for index, (topic, key, partition) in enumerate(columns):
            found.setdefault(self._place(topic, key, partition), []).append(index)
        return {**found}

    def _by_key(
        self, topic: str, partition: int, keys: Sequence[bytes | None]
    ) -> dict[TopicPartition | str, Sequence[int]]:
        count = len(self._leaders(topic))
        has_key = not is_missing(keys)
        is_keyed = has_key and isinstance(keys, BinaryColumn) and not keys.null_count
        if partition != NO_PARTITION or not has_key or (is_keyed and count == 1):
            return {self._place(topic, keys[0], partition): range(len(keys))}
        places = [TopicPartition(topic, number) for number in range(count)]
        found: dict[TopicPartition | str, list[int]] = {}
        for index, key in enumerate(keys):
            found.setdefault(topic if key is None else places[murmur2(key, count)], []).append(index)
        return {**found}

    def produce_whole(self, batches: Sequence[PlacedBatch]) -> None:
        """Queue whole batches. A batch that the topic cannot take unchanged is queued as records."""
        with self._incarnation.sending():
            for placed in batches:
                if placed.place.partition >= len(self._leaders(placed.place.topic)):
                    raise _refused(KafkaError._UNKNOWN_PARTITION, placed.place.topic)
                batch = placed.batch if self._runs is None else None  # digests need the records
                if isinstance(batch, CopiedBatch) and self._is_whole(placed.place.topic, batch.batch):
                    self._queue.add_taken(placed.place, Taken(batch.batch, placed.callbacks))
                else:
                    self._add(placed.place, _chosen(placed_records(placed), range(placed.batch.count), _now_ms()))
            if self._queue.has_due or self._queue.is_full:
                self._send(self._queue.seen(), self._deadline_s(), whole=False)

    def produce_encoded(self, place: TopicPartition, batch: EncodedBatch) -> None:
        """Queue a batch that another process has encoded for this partition, and send what is due."""
        with self._incarnation.sending():
            if place.partition >= len(self._leaders(place.topic)):
                raise _refused(KafkaError._UNKNOWN_PARTITION, place.topic)
            self._queue.add_taken(place, Taken(batch, {}))
            if self._queue.is_due(place) or self._queue.is_full:
                self._send(self._queue.seen(), self._deadline_s(), whole=False)

    def _deadline_s(self) -> float:
        return time.monotonic() + self._access.answer_s

    def _place(self, topic: str, key: bytes | None, partition: int) -> TopicPartition | str:
        count = len(self._leaders(topic))
        if partition != NO_PARTITION:
            if partition >= count:
                raise _refused(KafkaError._UNKNOWN_PARTITION, topic)
            return TopicPartition(topic, partition)
        return topic if key is None else TopicPartition(topic, murmur2(key, count))

    def _leaders(self, topic: str) -> list[int]:
        """Return the leaders of the topic's partitions. Refuses the record if the topic is missing or not permitted."""
        assert self._incarnation.protocol is not None
        try:
            return self._incarnation.protocol.cluster.leaders(topic, self._deadline_s())
        except AnswerError as error:
            found = error_of_answer(AnswerError(error.code, f"record for topic {topic}", error.detail))
            if found.failure in (Failure.REFUSED_RECORD, Failure.DENIED):
                raise found from None  # nothing was sent of it
            raise

    def _taking(self, topic: str) -> Taking:
        assert self._incarnation.protocol is not None
        return self._incarnation.protocol.cluster.taking(topic, self._deadline_s())

    def _is_whole(self, topic: str, batch: EncodedBatch) -> bool:
        """Return whether a batch may be sent unchanged. If the topic's limit cannot be read, this guesses cautiously.

        False if the broker would recompress the batch, because the result may be too large.
        """
        limit, compression = self._taking(topic)
        most_bytes = min(self._settings.record_bytes, self._settings.batch_bytes if limit is None else limit)
        is_kept = batch.codec == 0 or compression in (None, NAMES[batch.codec])
        return is_kept and len(batch) <= most_bytes

    def _add(self, place: TopicPartition | str, columns: PartitionColumns) -> None:
        if isinstance(place, str):
            self._add_keyless(place, columns)
        else:
            self._add_all(columns, lambda: place)

    def _add_keyless(self, topic: str, columns: PartitionColumns) -> None:
        """Fill the batch of one partition after another, as Java's client does."""
        self._add_all(columns, partial(self._queue.any_partition, topic, _spare(self._leaders(topic))))

    def _add_keyed(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None],
        headers: Sequence[HeaderBytes],
    ) -> None:
        """Distribute records by their keys, all at once. Records without a key go to one partition after another.

        All of them have the same `headers`.
        """
        settings = self._settings
        leaders = self._leaders(topic)
        made = rows(binary(values), now_ms=_now_ms(), keys=binary(keys))
        limits = Limits(settings.record_bytes, settings.batch_bytes, settings.batch_records)
        for partition, part in placed(made, limits, len(leaders), _spare(leaders)):
            same = Repeated(headers, len(part.values)) if headers else None
            self._add(TopicPartition(topic, partition), PartitionColumns(part.values, part.keys, part.timestamps, same))

    def _add_all(self, columns: PartitionColumns, next_place: Callable[[], TopicPartition]) -> None:
        limit = self._settings.record_bytes
        if columns.most_bytes() > limit and pc.max(columns.sizes()).as_py() > limit:
            error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
            text = f"{error.name()}: {error.str()} (record for topic {next_place().topic}; {LET_PASS})"
            raise ProducerError(Failure.REFUSED_RECORD, text)
        while len(columns.values):
            taken = self._add_some(next_place(), columns)
            columns = columns.part(taken, len(columns.values))

    def _add_some(self, place: TopicPartition, columns: PartitionColumns) -> int:
        taken = self._queue.add(place, columns)
        if self._runs is not None:
            self._runs.add(place, columns.part(0, taken), self._incarnation.protocol)
        if self._queue.is_due(place):
            self._send([place], self._deadline_s(), whole=False)
        elif self._queue.is_full:
            self._send(self._queue.seen(), self._deadline_s(), whole=True)
        return taken

    def flush(self, timeout_s: float) -> None:
        if self.failed_delivery is not None:
            raise self.failed_delivery
        deadline_s = time.monotonic() + timeout_s
        with self._incarnation.sending() as protocol:
            if self._queue.filled():
                self._send(self._queue.seen(), deadline_s, whole=True)
            protocol.batches.settle(deadline_s)

    def _send(self, places: Sequence[TopicPartition], deadline_s: float, *, whole: bool) -> None:
        """Send what is queued for these partitions, one batch of each at a time; without `whole`, full batches only.

        All partitions with queued records join the transaction together.
        """
        protocol = self._incarnation.protocol
        assert protocol is not None
        protocol.join(self._queue.filled(), deadline_s)
        of_places = [[(place, batch) for batch in self._queue.take(place, whole=whole)] for place in places]
        for turn in zip_longest(*of_places):
            batches = [protocol.batches.encoded(*each) for each in turn if each is not None]
            protocol.batches.produce(batches, deadline_s)


def _refused(code: int, topic: str) -> ProducerError:
    return error_of_answer(AnswerError(code, f"record for topic {topic}"))


def _spare(leaders: Sequence[int]) -> Iterator[int]:
    """Yield, in turn, the partitions with a leader, for records that may go to any partition."""
    led = [partition for partition, leader in enumerate(leaders) if leader >= 0]
    return (led[turn] for turn in spare_partitions(len(led), time.monotonic_ns() % len(led)))


def _differ_in_keys_and_values_only(records: PlacedRecords) -> bool:
    """Say whether records of one topic go where their keys say, now, all with the same headers."""
    same: tuple[Sequence[object], ...] = (records.topics, records.partitions, records.timestamps, records.headers)
    return (
        len(records.values) > 0
        and not records.callbacks
        and all(isinstance(column, Repeated) for column in same)
        and (records.partitions[0], records.timestamps[0]) == (NO_PARTITION, NOW)
        and not is_missing(records.keys)
    )


def _now_ms() -> int:
    return int(time.time() * 1000)


def _times(timestamps: Sequence[int], now_ms: int) -> Any:
    distinct = set(timestamps)
    if len(distinct) == 1:
        return now_ms if NOW in distinct else distinct.pop()
    given = [now_ms if each == NOW else each for each in timestamps] if NOW in distinct else timestamps
    return pa.array(given, pa.int64())


def _chosen(records: PlacedRecords, indexes: Sequence[int], now_ms: int) -> PartitionColumns:
    is_whole = len(indexes) == len(records.values)

    def of(column: Sequence[Any]) -> Sequence[Any]:
        return column if is_whole else picked(column, indexes)

    keys, headers, callbacks = of(records.keys), of(records.headers), records.callbacks
    if callbacks and not is_whole:
        callbacks = {at: callbacks[index] for at, index in enumerate(indexes) if index in callbacks}
    has_headers = bool(headers.value) if isinstance(headers, Repeated) else any(headers)
    return PartitionColumns(
        binary(of(records.values)),
        None if is_missing(keys) else binary(keys),
        _times(of(records.timestamps), now_ms),
        headers if has_headers else None,
        callbacks,
    )
