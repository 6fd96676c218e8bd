"""Writes a task's records and offsets to Kafka, in transactions or at least once, and creates topics before
(KIP-158).
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, assert_never, cast

from fencepost.api import RecordMetadata
from fencepost.config.connector import SourceConnectorConfig
from fencepost.config.reference import given_values
from fencepost.config.topic_creation import TopicCreationGroup
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.produce.transactional_client import Failure, ProducerError
from fencepost.kafka.value.whole import NO_PARTITION, NOW, DeliveryCallback, PlacedBatch, PlacedRecords
from fencepost.record import Repeated, distinct
from fencepost.storage.offset_topic import encode
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.finish import Closing, GroupPositions, OffsetRecords, fields_of
from fencepost.task.delivery.outgoing import Outgoing, OutgoingBatches, OutgoingColumns
from fencepost.transaction import TransactionalWriter, produce_error

log = logging.getLogger(__name__)


class TopicCreation:
    """Remembers which topics exist. Without groups it does nothing: the broker may create topics by itself."""

    def __init__(self, groups: Sequence[TopicCreationGroup], admin_conf: Mapping[str, Any]) -> None:
        self._groups = groups
        self._conf = admin_conf
        self._known: set[str] = set()

    def ensure(self, topics: Sequence[str]) -> None:
        """Create the missing topics, each with the first matching group's settings. Raises Kafka's errors."""
        if not self._groups:
            return
        for topic in sorted(distinct(topics) - self._known):
            self._create(topic)
            self._known.add(topic)

    def _create(self, topic: str) -> None:
        group = next((g for g in self._groups if g.matches(topic)), None)
        if group is None:
            return
        is_new = Admin(self._conf).topics.ensure(
            topic, partitions=group.partitions, replication=group.replication_factor, configs=group.configs
        )
        if is_new:
            log.info("created topic %s with the settings of topic.creation group %s", topic, group.name)


def topics_of(spec: TaskSpec) -> TopicCreation:
    """Return the object that creates the connector's topics (KIP-158)."""
    config = SourceConnectorConfig(given_values(spec.connector_config))
    groups = config.topic_creation() if spec.output.topic_creation_enabled else ()
    return TopicCreation(groups, spec.output.admin_conf)


OnDelivered = Callable[[int, RecordMetadata], None]


class Delivery(ABC):
    """Sends a task's records with one incarnation of its producer. For one thread."""

    _ended_s: list[float] | None = None

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Say whether records were sent since the last commit."""

    @property
    def must_be_replaced(self) -> bool:
        """Say whether this delivery must be closed and reopened before anything more is sent (E5)."""
        return False

    @property
    def is_narrow(self) -> bool:
        """Say whether a delivery with one more producer would be faster; that is also a reason to replace this one."""
        return False

    @property
    def is_light(self) -> bool:
        """Say whether the last transaction was so small that its duration did not depend on its contents."""
        return False

    @property
    def is_full(self) -> bool:
        """Say whether the open transaction is as large as it may be to end before its timeout."""
        return False

    def is_ready(self) -> bool:
        """Wait until a transaction can begin. False: the delivery must, or should, be replaced first."""
        return not self.must_be_replaced

    def cover(self, offsets: OffsetRecords) -> bool:
        """Take the offsets that cover the records sent up to the next commit. False: pass them to `commit` instead."""
        return False

    @abstractmethod
    def send(self, outgoing: Outgoing, on_delivered: OnDelivered | None = None) -> None:
        """Send records in order; `on_delivered` is called for each, with its index. Raises ProduceError."""

    @abstractmethod
    def commit(self, offsets: OffsetRecords, closing: Closing | None = None) -> bool:
        """Commit the records sent, together with the offsets that cover them (E1). `finished` reports the commit.

        `closing` returns more records of the same transaction; it is called once the earlier ones are in the log.
        Returns False if the commit has to wait longer; nothing has changed then.
        """

    def finished(self, *, wait: bool = False) -> Sequence[float]:
        """Return the time (`time.monotonic`) of each commit made since the last call; with `wait`, once all have ended.

        Raises the error of a failed commit, and no later one is made. If earlier ones were committed, this call returns
        them and the next call raises.
        """
        ended_s, self._ended_s = self._ended_s, None
        return ended_s or ()

    def _record_commit(self) -> None:
        """Record that a commit is made now; for deliveries that commit at once."""
        self._ended_s = self._ended_s or []
        self._ended_s.append(time.monotonic())

    @abstractmethod
    def abort(self) -> None:
        """Discard the records sent since the last commit, if that is possible."""

    @abstractmethod
    def close(self) -> None:
        """Close at once; nothing more is sent."""


class PlainDelivery(Delivery):
    """Delivers at least once: flushes records, and then writes their offsets."""

    def __init__(
        self, conf: dict[str, Any], offsets_topic: str, flush_timeout_s: float, group: GroupPositions | None = None
    ) -> None:
        """`group` keeps the offsets in place of the topic, if it is given."""
        self._client = LibrdkafkaProducer(conf)
        self._conf = conf
        self._group = group
        self._offsets_topic = offsets_topic
        self._flush_timeout_s = flush_timeout_s
        self._has_sent = False

    @property
    def is_open(self) -> bool:
        return self._has_sent

    def send(self, outgoing: Outgoing, on_delivered: OnDelivered | None = None) -> None:
        self._has_sent = True
        send_outgoing(self, outgoing, on_delivered)

    def send_one(self, topic: str, value: bytes | None, **fields: Any) -> None:
        self._guarded(lambda: self._client.produce(topic, value, **{k: v for k, v in fields.items() if v is not None}))

    def send_columns(self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> None:
        self._guarded(lambda: self._client.produce_columns(topics, values, keys))

    def send_placed(self, records: PlacedRecords) -> None:
        self._guarded(lambda: self._client.produce_placed(records))

    def send_whole(self, batches: Sequence[PlacedBatch]) -> None:
        self._guarded(lambda: self._client.produce_whole(batches))

    def commit(self, offsets: OffsetRecords, closing: Closing | None = None) -> bool:
        try:
            self._client.flush(self._flush_timeout_s)
            for record in closing() if closing is not None else ():
                self.send_one(record.topic, record.value, **fields_of(record))
            positions, records = ([], offsets) if self._group is None else self._group.parted(offsets)
            for key, value in records:
                self._client.produce(self._offsets_topic, value, key=key)
            self._client.flush(self._flush_timeout_s)
            if self._group is not None:
                GroupOffsets(self._conf, self._group.group).commit(positions)
        except ProducerError as error:
            if error.failure is Failure.PASSING and self._client.failed_delivery is None:
                log.warning("the offset commit has to wait: %s", error)
                return False
            raise produce_error(error) from None
        self._has_sent = False
        self._record_commit()
        return True

    def add(self, records: Closing) -> None:
        """Send records about those that are in the log by now. Raises ProduceError."""
        self._client.serve(0)
        for record in records():
            self.send_one(record.topic, record.value, **fields_of(record))

    def abort(self) -> None:
        """Do nothing: at least once cannot take records back. Their offsets are not written, so they are sent again."""

    def close(self) -> None:
        self._client.drop()

    @staticmethod
    def _guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except ProducerError as error:
            raise produce_error(error) from None


def send_outgoing(
    sink: "TransactionalWriter | PlainDelivery", outgoing: Outgoing, on_delivered: OnDelivered | None = None
) -> None:
    """Send records in order. Raises ProduceError."""
    if not len(outgoing):
        return
    match outgoing:
        case OutgoingColumns():
            if on_delivered is None and outgoing.is_plain:
                sink.send_columns(outgoing.topics, outgoing.values, outgoing.keys or Repeated(None, len(outgoing)))
            else:
                sink.send_placed(_placed(outgoing, on_delivered))
        case OutgoingBatches():
            callbacks = _callbacks(outgoing, on_delivered)
            sink.send_whole(outgoing.batches.placed(outgoing.topics, outgoing.partitions, callbacks))
        case _:
            assert_never(outgoing)


def _placed(outgoing: OutgoingColumns, on_delivered: OnDelivered | None) -> PlacedRecords:
    count = len(outgoing)
    return PlacedRecords(
        outgoing.topics,
        outgoing.values,
        outgoing.keys or Repeated(None, count),
        _filled(outgoing.partitions, NO_PARTITION, count),
        _times(outgoing.timestamps, count),
        outgoing.headers or Repeated((), count),
        _callbacks(outgoing, on_delivered),
    )


def _filled(column: Sequence[int | None] | None, missing: int, count: int) -> Sequence[int]:
    if column is None:
        return Repeated(missing, count)
    if isinstance(column, Repeated):
        return Repeated(missing if column.value is None else column.value, count)
    return [missing if each is None else each for each in column]


def _times(column: Sequence[int | None] | None, count: int) -> Sequence[int]:
    if column is None:
        return Repeated(NOW, count)
    if None not in column:
        return cast("Sequence[int]", column)
    return [NOW if each is None else each for each in column]


def _callbacks(outgoing: Outgoing, on_delivered: OnDelivered | None) -> Mapping[int, DeliveryCallback]:
    if on_delivered is None:
        return outgoing.callbacks
    return {index: _callback(outgoing, index, on_delivered) for index in range(len(outgoing))}


def _callback(outgoing: Outgoing, index: int, on_delivered: OnDelivered) -> DeliveryCallback:
    source = index if outgoing.sources is None else outgoing.sources[index]
    also = outgoing.callbacks.get(index)

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            on_delivered(
                source, RecordMetadata(message.topic(), message.partition(), message.offset(), message.timestamp()[1])
            )
        if also is not None:
            also(error, message)

    return delivered


def offset_records(
    spec: TaskSpec, offsets: Sequence[tuple[Any, Any]], spellings: Mapping[bytes, bytes] = MappingProxyType({})
) -> list[tuple[bytes, bytes | None]]:
    """Return the records of the offsets topic for (partition, offset) pairs.

    `spellings` maps our key bytes of a partition to those the topic has for it, such as a Java worker's.
    """
    records = [encode(spec.connector, partition, offset) for partition, offset in offsets]
    return [(spellings.get(key, key), value) for key, value in records] if spellings else records
