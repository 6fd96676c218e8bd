"""Two producers that take turns, on the real broker: order, E1, E2, E5, and what an error of one does to the other."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.task.delivery.lane import HELD_BYTES, QueueLimits
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import TransactionalWriter, WriterFencedError, lane_ids, open_lanes
from support.long_form import IS_LONG
from support.proxy import Action, ApiKey, KafkaProxy

Deliver = Callable[..., LanedDelivery]
TURNS = 200 if IS_LONG else 80


@pytest.fixture
def topics(kafka: EmbeddedKafka) -> tuple[str, str]:
    """A topic for records and one for offsets, a partition each."""
    name = uuid.uuid4().hex[:8]
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for topic in (data := f"data-{name}", offsets := f"offsets-{name}"):
        admin.topics.create(topic, partitions=1, replication=1)
    return data, offsets


@pytest.fixture
def deliver(kafka: EmbeddedKafka, topics: tuple[str, str]) -> Iterator[Deliver]:
    """Opens deliveries of one task as its runner does; each is closed in the end."""
    made: list[LanedDelivery] = []
    task = f"g-{topics[0]}-0"

    def open_one(*, lanes: int = 2, bootstrap: str | None = None, batch_bytes: int | None = None) -> LanedDelivery:
        conf = transactional_conf({"bootstrap.servers": bootstrap or kafka.bootstrap_servers}, task).conf
        room = QueueLimits.made_in(conf, HELD_BYTES if batch_bytes is None else batch_bytes)
        first, second = (TransactionalWriter(conf, id_) for id_ in lane_ids(task))
        writers = [first, second] if lanes == 2 else [first]
        delivery = LanedDelivery(
            writers, topics[1], limits=room, on_failure=lambda: None, widens_below=HELD_BYTES * (lanes == 1)
        )
        made.append(delivery)
        open_lanes(first, second, keeps_second=lanes == 2)
        return delivery

    yield open_one
    for delivery in made:
        delivery.close()


def write(delivery: LanedDelivery, topic: str, first: int, count: int) -> None:
    """One transaction: `count` numbers, and the last of them as the offset."""
    assert delivery.is_ready()
    values = [b"%06d" % number for number in range(first, first + count)]
    delivery.cover([(b"position", values[-1])])
    delivery.send(OutgoingColumns([topic] * count, values))
    delivery.commit(())


def read(kafka: EmbeddedKafka, topic: str) -> list[int]:
    return [int(seen.value) for seen in CommittedReader(kafka.bootstrap_servers, [topic]).read_all(20.0)]


@pytest.mark.parametrize("batch_bytes", [None, 600], ids=["queued ahead", "larger than the queue"])
def test_order_is_kept_over_many_transactions_of_two_lanes(
    kafka: EmbeddedKafka, topics: tuple[str, str], deliver: Deliver, batch_bytes: int | None
) -> None:
    delivery = deliver(batch_bytes=batch_bytes)
    for turn in range(TURNS):
        write(delivery, topics[0], turn * 300, 300)
    delivery.finished(wait=True)
    assert read(kafka, topics[0]) == list(range(TURNS * 300))
    assert read(kafka, topics[1]) == [turn * 300 + 299 for turn in range(TURNS)]


def test_every_commit_is_reported_once(topics: tuple[str, str], deliver: Deliver) -> None:
    delivery = deliver()
    told = 0
    for turn in range(20):
        write(delivery, topics[0], turn, 1)
        told += len(delivery.finished())
    assert told + len(delivery.finished(wait=True)) == 20
    assert not delivery.finished(wait=True)


def test_second_lane_is_requested_once_transactions_wait_for_each_other(
    topics: tuple[str, str], deliver: Deliver
) -> None:
    delivery = deliver(lanes=1)
    turn = 0
    while delivery.is_ready():
        write(delivery, topics[0], turn * 100, 100)
        turn += 1
        assert turn < 1000
    assert delivery.is_narrow
    assert not delivery.must_be_replaced


def test_the_second_lane_sends_nothing_before_the_first_is_flushed(
    kafka: EmbeddedKafka, topics: tuple[str, str], deliver: Deliver
) -> None:
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        delivery = deliver(bootstrap=proxy.bootstrap_servers)
        write(delivery, topics[0], 0, 10)
        delivery.finished(wait=True)
        eventually(lambda: read_uncommitted_count(kafka, topics[0]) == 11)  # 10 and the marker of their transaction
        held = proxy.on(ApiKey.PRODUCE, Action.HOLD, 1)
        write(delivery, topics[0], 10, 10)
        held.await_met()
        write(delivery, topics[0], 20, 10)
        assert read_uncommitted_count(kafka, topics[0]) == 11
        held.release()
        assert len(delivery.finished(wait=True)) == 2
    assert read(kafka, topics[0]) == list(range(30))


def test_transaction_is_not_committed_when_the_previous_one_is_not(
    kafka: EmbeddedKafka, topics: tuple[str, str], deliver: Deliver
) -> None:
    """E1, E6: the first lane's id is taken by somebody else while its transaction is open."""
    delivery = deliver()
    write(delivery, topics[0], 0, 10)
    delivery.finished(wait=True)
    thief = TransactionalWriter({"bootstrap.servers": kafka.bootstrap_servers}, lane_ids(f"g-{topics[0]}-0")[1])
    thief.open()  # the lane whose turn is next
    # One record alone: a second might already be told of the fence.
    delivery.send(OutgoingColumns([topics[0]], [b"10"]))
    delivery.commit(())
    with suppress(Exception):  # whether the error is seen here or below is a matter of time
        write(delivery, topics[0], 20, 10)
    with pytest.raises(Exception):  # noqa: B017
        delivery.finished(wait=True)
    delivery.abort()
    thief.close()
    assert read(kafka, topics[0]) == list(range(10))


def test_no_transaction_can_follow_a_failed_one(topics: tuple[str, str], deliver: Deliver) -> None:
    delivery = deliver()
    deliver()  # a newer start of the same task
    delivery.send(OutgoingColumns([topics[0]], [b"0"]))  # one record alone: a second might already be told of the fence
    delivery.commit(())
    with pytest.raises(WriterFencedError):
        delivery.finished(wait=True)
    with pytest.raises(Exception, match="earlier transaction"):
        delivery.send(OutgoingColumns([topics[0]], [b"1"]))


@pytest.mark.parametrize("lanes", [1, 2])
def test_e2_newer_start_fences_both_lanes_with_one_lane_or_two(
    kafka: EmbeddedKafka, topics: tuple[str, str], deliver: Deliver, lanes: int
) -> None:
    zombie = deliver()
    for turn in range(2):
        write(zombie, topics[0], turn * 10, 10)
    zombie.finished(wait=True)
    zombie.send(OutgoingColumns([topics[0]], [b"99"]))  # a transaction is open in one lane
    newer = deliver(lanes=lanes)
    write(newer, topics[0], 20, 10)
    newer.finished(wait=True)
    zombie.commit(())
    with pytest.raises(Exception):  # noqa: B017
        zombie.finished(wait=True)
    zombie.abort()
    assert read(kafka, topics[0]) == list(range(30))


def test_e5_a_strike_in_one_lane_retires_both_at_the_next_boundary(
    kafka: EmbeddedKafka, topics: tuple[str, str], deliver: Deliver
) -> None:
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        delivery = deliver(bootstrap=proxy.bootstrap_servers)
        write(delivery, topics[0], 0, 10)
        write(delivery, topics[0], 10, 10)
        delivery.finished(wait=True)
        assert delivery.is_ready()
        lost = proxy.on(ApiKey.PRODUCE, Action.RESET, 1)
        write(delivery, topics[0], 20, 10)
        lost.await_met()
        delivery.finished(wait=True)
        eventually(lambda: delivery.must_be_replaced, within_s=60)
        assert not delivery.is_ready()
        delivery.close()
    assert read(kafka, topics[0]) == list(range(30))


def read_uncommitted_count(kafka: EmbeddedKafka, topic: str) -> int:
    """Return how many records the log of the topic has, open transactions and markers included."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    return admin.offsets.ends([(topic, 0)], read_committed=False)[topic, 0]
