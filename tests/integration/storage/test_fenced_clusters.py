"""A round of fencing over two clusters: where the older generation writes, and where the next one will."""

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.cluster.command import LeaderCommand, PutConnector, PutTaskConfigs
from fencepost.cluster.rounds import FencingRounds
from fencepost.config.worker import WorkerConfig
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.transaction import CommitUnknownError, TransactionalWriter
from fencepost.worker.plan import Client
from fencepost.worker.settings import WorkerSettings
from support.memory_topic import MemoryTopic
from support.settings import SETTINGS


class Cluster:
    """A config topic in memory, and the leader's rounds, which fence real brokers."""

    def __init__(self, bootstrap: str) -> None:
        self.settings = WorkerSettings(WorkerConfig({**SETTINGS, "bootstrap.servers": bootstrap}), "http://w:1", "me")
        self.config = MemoryTopic()
        leader: Any = SimpleNamespace(submit=self.submit)
        self.rounds = FencingRounds(
            "g",
            leader,
            lambda timeout_s: self.config.snapshot,
            lambda config: self.settings.plan(config).clients.conf(Client.FENCING),
            lambda connector, generation: None,
            lambda snapshot, connector: True,
        )

    def submit(self, command: LeaderCommand) -> "Future[ClusterSnapshot]":
        done: Future[ClusterSnapshot] = Future()
        done.set_result(self.config.write(*command.decide(self.config.snapshot)))
        return done

    def put(self, **config: str) -> None:
        self.submit(PutConnector("c", {"name": "c", **config}))
        self.submit(PutTaskConfigs("c", [{}], is_exactly_once=True))


@pytest.fixture
def cluster(kafka: EmbeddedKafka) -> Iterator[Cluster]:
    cluster = Cluster(kafka.bootstrap_servers)
    yield cluster
    cluster.rounds.stop()


def test_e2_a_task_of_an_older_generation_cannot_commit_on_another_cluster(
    cluster: Cluster, own_kafka: EmbeddedKafka, topic_name: str
) -> None:
    elsewhere = {"producer.override.bootstrap.servers": own_kafka.bootstrap_servers}
    cluster.put(**elsewhere)
    conf = cluster.settings.plan(elsewhere).clients.conf(Client.FENCING)
    Admin({"bootstrap.servers": own_kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    zombie = TransactionalWriter(conf, "g-c-0")  # paused, with a transaction in its hands
    zombie.open()
    zombie.send(topic_name, b"v")
    zombie.flush()
    cluster.put()  # to the worker's own cluster
    assert not cluster.config.snapshot.is_ready("c")
    cluster.rounds.fence("c").result(60)
    assert cluster.config.snapshot.is_ready("c")
    with pytest.raises(CommitUnknownError, match="_FENCED"):
        zombie.commit()
    zombie.close()
    seen: list[LogRecord] = []
    reader = LogReader({"bootstrap.servers": own_kafka.bootstrap_servers}, topic_name)
    reader.read_to_end(30, seen.append)
    reader.close()
    assert seen == []
