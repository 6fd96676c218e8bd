"""Source offsets that a group of the target keeps, and records that a task adds at the end of a transaction (E18)."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from fencepost.api import FatalError, SourceRecord, TopicPartition
from fencepost.cluster.fencing import task_transactional_ids
from fencepost.embedded import EmbeddedKafka
from fencepost.hook.mirror import MirrorTask, OffsetsInGroup, Sent
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import ReadTimeoutError
from fencepost.kafka.group.group_offsets import Committed
from fencepost.kafka.group.memberless import memberless, read_stable
from fencepost.kafka.setting.client_settings import producer_conf, transactional_conf
from fencepost.kafka.value.position import FORGOTTEN, GroupOffset
from fencepost.record import Batch
from fencepost.storage.offset_topic import encode
from fencepost.task.delivery.delivery import PlainDelivery
from fencepost.task.delivery.finish import GroupPositions, LastSent
from fencepost.task.delivery.lane import QueueLimits
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import (
    CommitUnknownError,
    ProduceError,
    TransactionalWriter,
    WriterFencedError,
    lane,
    lane_ids,
    open_lanes,
)
from support.proxy import Action, ApiKey, KafkaProxy, Request


class Held(OffsetsInGroup):
    """Keeps `{"p": n}` at `{"offset": m}` as offset m + 1 of partition n of a topic, and nothing else."""

    def __init__(self, topic: str) -> None:
        self.topic, self.group = topic, f"connect-{topic}"

    def place(self, partition: Mapping[str, Any]) -> TopicPartition | None:
        return TopicPartition(self.topic, partition["p"]) if "p" in partition else None

    def places(self, task_configs: Sequence[Mapping[str, str | None]]) -> list[TopicPartition]:
        return [TopicPartition(self.topic, n) for n in range(2)]

    def position(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> tuple[int, str]:
        return int(offset["offset"]) + 1, "ü note"

    def source(self, place: TopicPartition, position: int, metadata: str) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"p": place.partition}, {"offset": position - 1}


class Telling(MirrorTask):
    """Ends each transaction with a record that tells where the last one of each partition went."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.refuses = False
        self.meanwhile: Callable[[], Any] = lambda: None

    def poll(self) -> None:
        return None

    def closing(self, sent: Sequence[Sent]) -> Sequence[SourceRecord]:
        self.meanwhile()
        if self.refuses:
            raise FatalError("closed badly")
        return [
            SourceRecord({}, None, self.topic, b"%d=%d" % (s.offset["offset"], s.metadata.offset), kafka_partition=0)
            for s in sent
            if s.offset
        ]


class OffsetsInGroupStage:
    """A task that copies numbered records of source partitions 0 and 1, its topics and its group."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        name = uuid.uuid4().hex[:8]
        self.bootstrap, self.data, self.syncs, self.id = kafka.bootstrap_servers, f"data-{name}", f"syncs-{name}", name
        admin = Admin(self.conf)
        admin.topics.create(self.data, partitions=2, replication=1)
        self.offsets = f"offsets-{name}"
        for topic in (self.syncs, self.offsets):
            admin.topics.create(topic, partitions=1, replication=1)
        self.held, self.task = Held(self.data), Telling(self.syncs)
        self.opened: list[Any] = []

    @property
    def conf(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap}

    def open(
        self, on_failure: Callable[[], None] | None = None, task: int = 0, via: str | None = None
    ) -> LanedDelivery:
        """Open both lanes. `via`: where the producers find the broker; they queue ahead, then."""
        servers = {"bootstrap.servers": via or self.bootstrap}
        conf = {**transactional_conf(servers, self.id).conf, "delivery.report.only.error": False}
        room = None if via is None else QueueLimits.made_in(conf)
        writers = [TransactionalWriter(conf, id_) for id_ in self.ids(task)]
        open_lanes(*writers, keeps_second=True)
        self.position()  # as at the admission; it also makes a new broker have a coordinator of groups
        group = GroupPositions(self.held)
        delivery = LanedDelivery(writers, self.offsets, limits=room, group=group, on_failure=on_failure)
        self.opened.append(delivery)
        return delivery

    def ids(self, task: int) -> tuple[str, str]:
        return task_transactional_ids(self.id, "mirror", task)

    def fence(self, tasks: int) -> None:
        """The round that comes before a new plan, when the one before had so many tasks."""
        ids = [id_ for task in range(tasks) for id_ in self.ids(task)]
        lane.fence(ids, lambda id_: transactional_conf(self.conf, id_).conf, 30.0)

    def send(self, delivery: Any, numbers: Sequence[int], partition: int = 0) -> LastSent:
        last = LastSent(self.task, {(self.data, partition)})  # as after the first transaction
        values = [b"%d" % n for n in numbers]
        count = len(values)
        batch = Batch([self.data] * count, values, [{"p": partition}] * count, [{"offset": n} for n in numbers])
        outgoing = OutgoingColumns([self.data] * count, values, partitions=[partition] * count)
        delivery.send(
            OutgoingColumns(
                outgoing.topics, values, partitions=outgoing.partitions, callbacks=last.callbacks_for(batch, outgoing)
            )
        )
        return last

    def write(self, delivery: Any, numbers: Sequence[int], partition: int = 0) -> None:
        """Hand over one transaction."""
        assert delivery.is_ready()
        last = self.send(delivery, numbers, partition)
        delivery.commit([encode("c", {"p": partition}, {"offset": numbers[-1]})], last.closing)

    def position(self, partition: int = 0) -> int | None:
        committed = self.positions().get(TopicPartition(self.data, partition))
        assert committed is None or committed.metadata == "ü note"
        return None if committed is None else committed.offset

    def positions(self, within_s: float = 30.0) -> dict[TopicPartition, Committed]:
        return read_stable(self.conf, self.held.group, within_s, self.held.places(()))

    def values(self, topic: str) -> list[bytes]:
        with CommittedReader(self.bootstrap, [topic]) as reader:
            return [seen.value or b"" for seen in reader.read_all()]


@pytest.fixture
def scene(kafka: EmbeddedKafka) -> Iterator[OffsetsInGroupStage]:
    scene = OffsetsInGroupStage(kafka)
    yield scene
    for delivery in scene.opened:
        delivery.close()


def test_e18_records_their_position_and_their_syncs_are_committed_together(scene):
    delivery = scene.open()
    scene.write(delivery, [3, 4, 7])
    scene.write(delivery, [0, 1], partition=1)
    delivery.finished(wait=True)
    assert (scene.position(), scene.position(1)) == (8, 2)
    assert scene.values(scene.syncs) == [b"7=2", b"1=1"]
    assert sorted(scene.values(scene.data)) == [b"0", b"1", b"3", b"4", b"7"]


def test_e18_aborted_transaction_leaves_no_record_position_or_sync(scene):
    delivery = scene.open()
    scene.write(delivery, [1])
    delivery.finished(wait=True)
    scene.task.refuses = True
    scene.write(delivery, [2])
    with pytest.raises(FatalError):
        delivery.finished(wait=True)
    delivery.abort()
    assert scene.position() == 2
    assert scene.values(scene.syncs) == [b"1=0"]
    assert scene.values(scene.data) == [b"1"]


def test_e18_positions_and_syncs_of_two_lanes_keep_their_order(scene):
    """As many as it takes until a hundred were on their way beside the one in front of them."""
    failed = threading.Event()
    delivery = scene.open(on_failure=failed.set)
    beside = handed_over = ended = 0
    while beside < 100:
        start = 3 * handed_over
        scene.write(delivery, [start, start + 1, start + 2])
        handed_over += 1
        ended += len(delivery.finished())
        beside += handed_over - ended > 1
        assert handed_over < 5_000, f"{beside} were beside another one"
    delivery.finished(wait=True)
    assert not failed.is_set()
    count = 3 * handed_over
    assert scene.position() == count
    told = [tuple(map(int, value.split(b"="))) for value in scene.values(scene.syncs)]
    assert [source for source, _ in told] == list(range(2, count, 3))
    assert told == sorted(told)


@pytest.fixture
def proxy(kafka: EmbeddedKafka) -> Iterator[KafkaProxy]:
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        yield proxy


def opened_twice(scene: OffsetsInGroupStage, proxy: KafkaProxy) -> LanedDelivery:
    """Open lanes behind the proxy that have committed a transaction each."""
    delivery = scene.open(on_failure=lambda: None, via=proxy.bootstrap_servers)
    for number in range(2):
        scene.write(delivery, [number])
    delivery.finished(wait=True)
    return delivery


def test_position_is_sent_while_its_records_are_in_flight(scene, proxy):
    delivery = opened_twice(scene, proxy)
    records = proxy.on(ApiKey.PRODUCE, Action.HOLD_ANSWER, 1)
    position = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.PASS, 1)
    scene.write(delivery, [2])
    records.await_met()
    position.await_met()
    records.release()
    delivery.finished(wait=True)
    assert scene.position() == 3
    assert scene.values(scene.syncs)[2:] == [b"2=4"]


def test_e18_no_lane_sends_its_position_before_the_previous_transactions(scene, proxy):
    """The group keeps what came to it last, whatever is committed last."""
    delivery = opened_twice(scene, proxy)
    first = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.HOLD, 1)
    early = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.PASS, 1)
    begun_s = time.monotonic()
    for number in (2, 3):
        scene.write(delivery, [number])
    first.await_met(within_s=60)
    was_early = early.met_meanwhile(begun_s)
    first.release()
    delivery.finished(wait=True)
    assert was_early == 0
    assert scene.position() == 4


def test_syncs_wait_for_earlier_syncs_and_records_do_not(scene, proxy):
    delivery = opened_twice(scene, proxy)
    first, early = (proxy.on(ApiKey.PRODUCE, a, 1, of(scene.syncs)) for a in (Action.HOLD, Action.PASS))
    records = proxy.on(ApiKey.PRODUCE, Action.PASS, 2, of(scene.data))
    begun_s = time.monotonic()
    for number in (2, 3):
        scene.write(delivery, [number])
    first.await_met(within_s=60)
    records.await_answered(2, within_s=60)
    was_early = early.met_meanwhile(begun_s)
    first.release()
    delivery.finished(wait=True)
    assert was_early == 0
    assert scene.values(scene.syncs)[2:] == [b"2=4", b"3=5"]


def of(topic: str) -> Callable[[Request], bool]:
    return lambda request: topic.encode() in request.frame


def test_refused_record_is_the_reported_error_while_its_position_is_in_flight(scene, proxy):
    delivery = opened_twice(scene, proxy)
    position = proxy.on(ApiKey.TXN_OFFSET_COMMIT, Action.HOLD, 1)
    scene.data = f"narrow-{scene.id}"
    configs = {"max.message.bytes": "100"}
    Admin(scene.conf).topics.create(scene.data, partitions=1, replication=1, configs=configs)
    last = scene.send(delivery, [10**200])
    delivery.commit([encode("c", {"p": 0}, {"offset": 2})], last.closing)
    position.await_met()
    position.release()
    with pytest.raises(ProduceError, match=scene.data) as refused:
        delivery.finished(wait=True)
    assert refused.value.is_refused
    delivery.abort()
    scene.data = scene.held.topic
    assert scene.position() == 2


def test_e18_a_zombie_commits_neither_records_nor_a_position(scene):
    zombie = scene.open()
    scene.write(zombie, [1])
    zombie.finished(wait=True)
    scene.send(zombie, [2])
    successor = scene.open()
    assert scene.position() == 2
    zombie.commit([encode("c", {"p": 0}, {"offset": 2})])
    with pytest.raises((WriterFencedError, ProduceError)):
        zombie.finished(wait=True)
    scene.write(successor, [2, 3])
    successor.finished(wait=True)
    assert scene.position() == 4
    assert scene.values(scene.data) == [b"1", b"2", b"3"]


def test_e18_syncs_are_not_visible_without_their_records(scene):
    """A successor comes when the records are in the log, and what tells of them is not."""
    zombie = scene.open()
    scene.task.meanwhile = scene.open
    scene.write(zombie, [1])
    with pytest.raises((WriterFencedError, ProduceError, CommitUnknownError)):
        zombie.finished(wait=True)
    assert scene.position() is None
    assert scene.values(scene.data) == []
    assert scene.values(scene.syncs) == []


def test_e18_new_task_configs_fence_tasks_that_no_longer_exist(scene):
    """Two tasks become one: the id of the second is nobody's, and the group would take what its zombie commits."""
    zombie = scene.open(task=1)
    scene.write(zombie, [1], partition=1)
    zombie.finished(wait=True)
    scene.send(zombie, [2], partition=1)
    scene.fence(tasks=2)
    successor = scene.open()
    assert scene.position(1) == 2
    zombie.commit([encode("c", {"p": 1}, {"offset": 2})])
    with pytest.raises((WriterFencedError, ProduceError)):
        zombie.finished(wait=True)
    scene.write(successor, [2, 3], partition=1)
    successor.finished(wait=True)
    assert scene.position(1) == 4
    assert scene.values(scene.data) == [b"1", b"2", b"3"]


def test_e18_position_read_waits_for_an_open_transaction(scene):
    writer = TransactionalWriter(transactional_conf(scene.conf, scene.id).conf, scene.id)
    scene.opened.append(writer)
    writer.open()
    writer.send_group_offsets([GroupOffset(scene.data, 0, 5, "ü note")], memberless(scene.held.group))
    with pytest.raises(ReadTimeoutError):
        scene.positions(within_s=0.2)
    found: list[Any] = []
    reading = threading.Thread(target=lambda: found.append(scene.position()))
    reading.start()
    writer.commit()
    reading.join(60)
    assert found == [5]


def test_positions_are_read_while_the_group_always_has_an_open_transaction(scene):
    """Two tasks commit in turn, and each has begun again before the other one ends."""
    writers = [TransactionalWriter(transactional_conf(scene.conf, id_).conf, id_) for id_ in lane_ids(scene.id)]
    is_over = threading.Event()
    scene.position()  # it makes a new broker have a coordinator of groups

    def begin(partition: int, offset: int) -> None:
        committed = [GroupOffset(scene.data, partition, offset, "ü note")]
        writers[partition].send_group_offsets(committed, memberless(scene.held.group))

    def take_turns() -> None:
        number = 1
        while not is_over.is_set():
            number += 1
            writers[number % 2].commit()
            begin(number % 2, number)

    for partition, writer in enumerate(writers):
        scene.opened.append(writer)
        writer.open()
        begin(partition, 1)
    turns = threading.Thread(target=take_turns)
    turns.start()
    try:
        assert set(scene.positions()) == set(scene.held.places(()))
    finally:
        is_over.set()
        turns.join(60)


def test_at_least_once_the_position_follows_the_records(scene):
    conf = {**producer_conf(scene.conf).conf, "delivery.report.only.error": False}
    delivery = PlainDelivery(conf, scene.offsets, 30.0, GroupPositions(scene.held))
    scene.opened.append(delivery)
    last = scene.send(delivery, [1, 2])
    assert scene.position() is None
    assert delivery.commit([encode("c", {"p": 0}, {"offset": 2})], last.closing)
    assert scene.position() == 3
    assert eventually(lambda: scene.values(scene.syncs)) == [b"2=1"]


def test_removed_offset_is_marked_as_forgotten_in_the_transaction(scene):
    delivery = scene.open()
    scene.write(delivery, [1])
    scene.send(delivery, [2])
    delivery.commit([encode("c", {"p": 0}, None)])
    delivery.finished(wait=True)
    assert scene.positions() == {TopicPartition(scene.data, 0): Committed(0, FORGOTTEN)}


def test_offsets_not_kept_by_the_group_go_to_the_offsets_topic(scene):
    delivery = scene.open()
    scene.send(delivery, [1])
    beside = encode("c", {"gap": 3}, {"why": "truncated"})
    delivery.commit([encode("c", {"p": 0}, {"offset": 1}), beside])
    delivery.finished(wait=True)
    assert scene.position() == 2
    assert scene.values(scene.offsets) == [beside[1]]
