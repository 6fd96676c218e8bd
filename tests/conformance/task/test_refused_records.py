"""Records that the broker refuses, or that do not fit: which error a task gets, on the real broker."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.task.delivery.lane import QueueLimits
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.transaction import ProduceError, TransactionalWriter, lane_ids, open_lanes
from support.clients import column

_LIMIT_BYTES = 2_000


class Target:
    """A delivery of two lanes, and topics of its own."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        name = uuid.uuid4().hex[:8]
        self.data, self.offsets, self.id = f"data-{name}", f"offsets-{name}", f"g-{name}-0"
        self._kafka = kafka
        self._admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
        self._opened: list[LanedDelivery] = []
        self._admin.topics.create(self.offsets, partitions=1, replication=1)

    def create(self, partitions: int = 1, limit_bytes: int = 1_000_000) -> None:
        self._admin.topics.create(
            self.data, partitions=partitions, replication=1, configs={"max.message.bytes": str(limit_bytes)}
        )

    def open(self, *, queue_kb: int | None = None) -> LanedDelivery:
        conf = transactional_conf({"bootstrap.servers": self._kafka.bootstrap_servers}, self.id).conf
        if queue_kb is not None:
            conf["queue.buffering.max.kbytes"] = str(queue_kb)
        room = QueueLimits.made_in(conf)
        first, second = (TransactionalWriter(conf, id_) for id_ in lane_ids(self.id))
        delivery = LanedDelivery([first, second], self.offsets, limits=room, on_failure=lambda: None)
        self._opened.append(delivery)
        open_lanes(first, second, keeps_second=True)
        return delivery

    def close(self) -> None:
        for delivery in self._opened:
            delivery.close()


@pytest.fixture
def target(kafka: EmbeddedKafka) -> Iterator[Target]:
    target = Target(kafka)
    yield target
    target.close()


def deliver(delivery: LanedDelivery, outgoing: OutgoingColumns) -> None:
    """One transaction, waited for."""
    assert delivery.is_ready()
    delivery.cover([(b"position", b"1")])
    delivery.send(outgoing)
    delivery.commit(())
    delivery.finished(wait=True)


def test_record_refused_by_the_broker_after_accepted_ones_is_reported_as_such(target: Target) -> None:
    target.create(limit_bytes=_LIMIT_BYTES)
    delivery = target.open()
    assert delivery.is_ready()
    delivery.send(OutgoingColumns([target.data], [b"small"]))
    delivery._current.writer.flush()  # type: ignore[union-attr]
    with pytest.raises(ProduceError, match="MSG_SIZE_TOO_LARGE") as refused:
        deliver(delivery, OutgoingColumns([target.data], [b"x" * 2 * _LIMIT_BYTES]))
    assert refused.value.is_refused


def test_record_sent_after_a_refused_one_fails_with_the_reason(target: Target) -> None:
    target.create(limit_bytes=_LIMIT_BYTES)
    writer = target.open()._lanes[0].writer
    writer.send(target.data, b"small")
    writer.flush()
    writer.send(target.data, b"x" * 2 * _LIMIT_BYTES)
    client: Any = writer._client
    producer = client._producer
    producer.flush(60)
    for send in (
        lambda: writer.send(target.data, b"small"),
        lambda: writer.send_columns(*column(target.data, [b"small"])),
        lambda: writer.send_columns([target.data], [b"small"], [None]),
    ):
        with pytest.raises(ProduceError, match="MSG_SIZE_TOO_LARGE") as refused:
            send()
        assert refused.value.is_refused


def test_refused_record_is_reported_instead_of_records_dropped_with_it(target: Target) -> None:
    """The offsets go first, to another topic, and are dropped where a record is refused."""
    target.create(limit_bytes=_LIMIT_BYTES)
    for _ in range(5):
        delivery = target.open()
        with pytest.raises(ProduceError, match="MSG_SIZE_TOO_LARGE") as refused:
            deliver(delivery, OutgoingColumns([target.data], [b"x" * 2 * _LIMIT_BYTES]))
        assert refused.value.is_refused
        delivery.close()


def test_missing_partition_is_refused_after_an_existing_one(target: Target) -> None:
    target.create()
    delivery = target.open()
    with pytest.raises(ProduceError, match="_UNKNOWN_PARTITION") as refused:
        deliver(delivery, OutgoingColumns([target.data] * 2, [b"1", b"2"], partitions=[0, 7]))
    assert refused.value.is_refused


def test_missing_topic_is_refused(target: Target) -> None:
    delivery = target.open()
    assert delivery.is_ready()
    with pytest.raises(ProduceError) as refused:
        deliver(delivery, OutgoingColumns(["no such topic"], [b"1"]))
    assert refused.value.is_refused


def test_transaction_larger_than_the_queue_does_not_wait_for_full_batches(target: Target) -> None:
    """Of many partitions none has enough for a batch when the queue is full, and `linger.ms` is nearly a minute."""
    target.create(partitions=20)
    delivery = target.open(queue_kb=1024)
    values: list[bytes | None] = [b"x" * 1000] * 5_000
    begun = time.monotonic()
    deliver(delivery, OutgoingColumns([target.data] * 5_000, values, [b"%d" % n for n in range(5_000)]))
    assert time.monotonic() - begun < 40


def test_missing_topic_is_refused_after_an_existing_one(target: Target) -> None:
    target.create()
    delivery = target.open()
    topics = [target.data, target.data, "no such topic"]
    with pytest.raises(ProduceError) as refused:
        deliver(delivery, OutgoingColumns(topics, [b"1", b"2", b"3"], [b"1", b"2", b"3"]))
    assert refused.value.is_refused
