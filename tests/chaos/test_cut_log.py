"""Members of sinks and a mirror's task read a log that an unclean election cuts: each kept record comes once.

The log grows past their positions before they ask again. Some readers are stopped meanwhile: a member that reads whole
batches, one whose client fetches, and a DataFrame sink.
"""

import contextlib
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from fencepost.builtin.mirror.source.connector import MirrorSourceConnector, MirrorSourceTask
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.read.group_batches import BatchGroupInput
from fencepost.kafka.read.group_input import GroupInput
from fencepost.record import TopicPartition
from fencepost.task.sink.epoch_plan import EpochOffset
from fencepost.testing import eventually
from fencepost.worker.host.epoch.membership import HeldPartitions
from fencepost.worker.host.epoch.task import EpochLogs
from support.brokers import Brokers
from support.group_members import Members, Notes
from support.task_context import Context

WITHIN_S = 180
LEADER, BEHIND = 1, 2
PLACE = TopicPartition("cut-under-readers", 0)


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with Brokers() as running:
        yield running


class MirrorReader:
    """A mirror's task with `on.source.gap=record`, and what it has polled."""

    def __init__(self, servers: str) -> None:
        config = {
            "name": "m",
            "source.cluster.alias": "a",
            "target.cluster.alias": "b",
            "source.cluster.bootstrap.servers": servers,
            "target.cluster.bootstrap.servers": servers,
            "topics": PLACE.topic,
            "emit.offset-syncs.enabled": "false",
            "on.source.gap": "record",
            "task.assigned.partitions": f"{PLACE.topic}-{PLACE.partition}",
        }
        self.task = MirrorSourceTask()
        self.task.config = MirrorSourceConnector(config)
        self.task.context = Context()
        self.task.start()
        self.values: list[bytes] = []
        self.gaps: list[Any] = []

    def poll(self) -> None:
        with contextlib.suppress(KafkaUnavailableError):
            batch = self.task.poll()
            if batch is not None:
                self.values += [value for value in batch.values if value is not None]
                self.gaps += [offset for partition, offset in batch.ends if "gap" in partition]


class SinkReader:
    """The member of a sink's group, and what it has polled."""

    def __init__(self, servers: str, group: str = "running", kind: type[GroupInput] = BatchGroupInput) -> None:
        self.members = Members(servers, PLACE.topic, kind)
        self.members.group = group
        self.member = self.members.join(Notes(), auto_offset_reset="earliest")
        self.values: list[bytes] = []

    def poll(self) -> None:
        self.values += [value for value in self.member.poll(0.05, 500).values if value is not None]


def looked(servers: str, committed: EpochOffset) -> EpochOffset:
    """Return the offset of a DataFrame sink's group once the log is compared with it."""
    spec: Any = SimpleNamespace(
        id="s-0", input=SimpleNamespace(consumer_conf={}, reader_admin_conf={"bootstrap.servers": servers})
    )
    held = HeldPartitions(dict, lambda: None)
    held.offsets[PLACE] = EpochOffset.of(committed.to_commit(PLACE))

    def is_compared() -> bool:
        logs.look(held, {PLACE})
        return held.offsets[PLACE].leader_epoch > committed.leader_epoch

    with closing(EpochLogs(spec)) as logs:
        eventually(is_compared, within_s=WITHIN_S)
    return held.offsets[PLACE]


def send(servers: str, values: list[bytes]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for value in values:
        producer.produce(PLACE.topic, value, partition=PLACE.partition)
    assert producer.flush(WITHIN_S) == 0


@pytest.mark.chaos
def test_each_kept_record_is_read_once_when_a_log_is_cut(brokers: Brokers) -> None:
    servers = brokers.bootstrap_servers
    client = AdminClient({"bootstrap.servers": servers})
    unclean = {"unclean.leader.election.enable": "true"}
    made = NewTopic(PLACE.topic, num_partitions=1, replica_assignment=[[LEADER, BEHIND]], config=unclean)
    client.create_topics([made])[PLACE.topic].result(60)
    eventually(lambda: brokers.leader_of(PLACE.topic) == LEADER, within_s=WITHIN_S)
    sink, mirror, stopped = SinkReader(servers), MirrorReader(servers), SinkReader(servers, "stopped")
    stopped_client = SinkReader(servers, "stopped-client", GroupInput)
    kept, lost, later = ([b"%s %d" % (name, n) for n in range(10)] for name in (b"kept", b"lost", b"later"))

    def are_read(count: int, *readers: SinkReader | MirrorReader) -> bool:
        for each in readers:
            each.poll()
        return min(len(each.values) for each in readers) >= count

    def in_sync() -> list[int]:
        found: list[int] = client.list_topics(PLACE.topic, timeout=10).topics[PLACE.topic].partitions[0].isrs
        return found

    try:
        send(servers, kept)
        eventually(lambda: in_sync() == [LEADER, BEHIND], within_s=WITHIN_S)
        brokers.kill(BEHIND)
        eventually(lambda: in_sync() == [LEADER], within_s=WITHIN_S)
        send(servers, lost)
        eventually(lambda: are_read(20, sink, mirror, stopped, stopped_client), within_s=WITHIN_S, every_s=0)
        for each in (stopped, stopped_client):
            each.member.commit({PLACE: 20})
            each.member.close()
        epoch_offset = looked(servers, EpochOffset(20))
        assert epoch_offset.offset == 20
        brokers.kill(LEADER, is_last=True)
        brokers.start(BEHIND)
        eventually(lambda: brokers.leader_of(PLACE.topic) == BEHIND, within_s=WITHIN_S)
        send(servers, later * 3)
        eventually(lambda: are_read(50, sink, mirror), within_s=WITHIN_S, every_s=0)
        assert sink.values == mirror.values == [*kept, *lost, *later * 3]
        assert [(gap["reason"], gap["position"]) for gap in mirror.gaps] == [("diverged", 20)]
        for started in (SinkReader(servers, "stopped"), SinkReader(servers, "stopped-client", GroupInput)):
            with closing(started.member):
                eventually(lambda started=started: are_read(30, started), within_s=WITHIN_S, every_s=0)
            assert started.values == later * 3
        assert looked(servers, epoch_offset).offset == 10
    finally:
        for each in (stopped, stopped_client, sink):
            each.member.close()
        mirror.task.stop()
        brokers.restore()
