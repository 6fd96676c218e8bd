"""Members of sinks and a mirror's task read a log that an unclean election cuts: each kept record comes once.

The log grows past their positions before they ask again. One of the members is stopped meanwhile.
"""

import contextlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.read.group_batches import BatchGroupInput
from fencepost.mirror.source.connector import MirrorSourceConnector
from fencepost.mirror.source.task import MirrorSourceTask
from fencepost.record import TopicPartition
from fencepost.testing import eventually
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

    def __init__(self, servers: str, group: str = "running") -> None:
        self.members = Members(servers, PLACE.topic, BatchGroupInput)
        self.members.group = group
        self.member = self.members.join(Notes(), auto_offset_reset="earliest")
        self.values: list[bytes] = []

    def poll(self) -> None:
        self.values += [value for value in self.member.poll(0.05, 500).values if value is not None]


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
        eventually(lambda: are_read(20, sink, mirror, stopped), within_s=WITHIN_S, every_s=0)
        stopped.member.commit({PLACE: 20})
        stopped.member.close()
        brokers.kill(LEADER, is_last=True)
        brokers.start(BEHIND)
        eventually(lambda: brokers.leader_of(PLACE.topic) == BEHIND, within_s=WITHIN_S)
        send(servers, later * 3)
        eventually(lambda: are_read(50, sink, mirror), within_s=WITHIN_S, every_s=0)
        assert sink.values == mirror.values == [*kept, *lost, *later * 3]
        assert [(gap["reason"], gap["position"]) for gap in mirror.gaps] == [("diverged", 20)]
        started = SinkReader(servers, "stopped")
        with closing(started.member):
            eventually(lambda: are_read(30, started), within_s=WITHIN_S, every_s=0)
        assert started.values == later * 3
    finally:
        stopped.member.close()
        sink.member.close()
        mirror.task.stop()
        brokers.restore()
