"""Turns the rows of a task into Kafka's batches, one partition each, without a producer: the driver stamps them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api import FatalError
from fencepost.kafka.codec.columns import binary, rows
from fencepost.kafka.codec.compress import Codec
from fencepost.kafka.codec.encode import Rows, encode_batch
from fencepost.kafka.codec.encode_cut import Limits, RowQueue, grouped, placed, spare_partitions
from fencepost.kafka.codec.encode_header import EncodedBatch
from fencepost.kafka.setting.batch_settings import BatchSettings
from fencepost.kafka.wire.requests import Target
from fencepost.record import Repeated, TopicPartition
from fencepost.spark.row.columns import RecordMaker
from fencepost.task.delivery.outgoing import OutgoingColumns

_MOST_WAITING_BYTES = 64 << 20
_MOST_KEY_BYTES = 100
_INT32 = pa.int32()

PlacedBatch = tuple[TopicPartition, EncodedBatch]


class RowTooLargeError(FatalError):
    """A row is larger than its topic takes."""


class Encoder:
    """Encodes the rows of one task. The batches of a partition are in the order of its rows."""

    def __init__(
        self, maker: RecordMaker, target: Callable[[str], Target], conf: Mapping[str, Any], first: int
    ) -> None:
        """`target` looks a topic up. `conf` are the producer's settings, with librdkafka's names.

        `first` is where rows without a key begin: they go to one partition after another.
        """
        self._maker = maker
        self._look_up = target
        self._settings = BatchSettings.of({"transactional.id": "", **conf})
        self._codec = Codec(self._settings.compression)
        self._first = first
        self._queues: dict[TopicPartition, RowQueue] = {}
        self._topics: dict[str, tuple[Target, Iterator[int]]] = {}
        self.rows = 0

    @property
    def targets(self) -> dict[str, Target]:
        """Return the topics so far."""
        return {topic: target for topic, (target, _) in self._topics.items()}

    def encoded(self, frames: Iterable[Any]) -> Iterator[PlacedBatch]:
        """Yield the batches of all rows of these Arrow batches.

        Raises RowTooLargeError, and FatalError for a partition that is not there.
        """
        for frame in frames:
            if frame.num_rows:
                self.rows += frame.num_rows
                yield from self._full(self._maker.outgoing(frame))
                if sum(queue.size_bytes for queue in self._queues.values()) > _MOST_WAITING_BYTES:
                    yield from self._rest()
        yield from self._rest()

    def _full(self, records: OutgoingColumns) -> Iterator[PlacedBatch]:
        for topic, part, chosen in _by_topic(records):
            target, spare = self._topic(topic)
            if chosen is not None:
                _check(chosen, topic, target.partitions)
            limits = self._limits(target)
            for partition, own in placed(part, limits, target.partitions, spare, chosen):
                place = TopicPartition(topic, partition)
                if place not in self._queues:
                    self._queues[place] = RowQueue(limits)
                for full in self._queues[place].add(own):
                    yield place, self._batch(place, full)

    def _rest(self) -> Iterator[PlacedBatch]:
        for place, queue in self._queues.items():
            for last in queue.rest():
                yield place, self._batch(place, last)

    def _batch(self, place: TopicPartition, full: Rows) -> EncodedBatch:
        made, limit = encode_batch(full, self._codec), self._topics[place.topic][0].most_bytes
        if limit is not None and len(made) > limit and len(full) == 1:
            size = sum(len(column[0].as_py() or b"") for column in full.columns)
            raise RowTooLargeError(
                f"topic {place.topic}, partition {place.partition}: the row with {_key(full)} has {size:,} bytes, a "
                f"batch of {len(made):,}, and the topic takes {limit:,}: raise its max.message.bytes, or write less"
            )
        return made

    def _topic(self, topic: str) -> tuple[Target, Iterator[int]]:
        if topic not in self._topics:
            found = self._look_up(topic)
            self._topics[topic] = found, spare_partitions(found.partitions, self._first)
        return self._topics[topic]

    def _limits(self, target: Target) -> Limits:
        settings = self._settings
        return Limits(target.most_bytes or settings.record_bytes, settings.batch_bytes, settings.batch_records)


def _key(row: Rows) -> str:
    key = None if row.keys is None else row.keys[0].as_py()
    return "no key" if key is None else f"key {key[:_MOST_KEY_BYTES]!r}"


def _by_topic(records: OutgoingColumns) -> Iterator[tuple[str, Rows, Any]]:
    """Yield the rows of each topic, with the partitions that are chosen for them, if any."""
    whole = rows(
        binary(records.values),
        now_ms=int(time.time() * 1000),
        keys=None if records.keys is None else binary(records.keys),
        timestamps=records.timestamps,
        headers=records.headers,
    )
    chosen = None if records.partitions is None else pa.array(records.partitions, _INT32)
    if isinstance(records.topics, Repeated):
        yield records.topics.value, whole, chosen
        return
    named = pa.array(records.topics).dictionary_encode()
    for index, indices in grouped(named.indices):
        yield named.dictionary[index].as_py(), whole.take(indices), None if chosen is None else chosen.take(indices)


def _check(chosen: Any, topic: str, partitions: int) -> None:
    low, high = (each.as_py() for each in pc.min_max(chosen).values())
    if low is not None and not 0 <= low <= high < partitions:
        raise FatalError(
            f"column partition has {low if low < 0 else high}, and topic {topic} has {partitions} partitions: "
            "correct the column, or let the key choose the partition"
        )
