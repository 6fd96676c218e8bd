"""One worker, the only one of its group: what remains when it ends, and how its successor continues."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from rows import ok, rows

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.storage.config_topic import TopicWriter
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation
from support.cluster import Cluster, url


@pytest.fixture
def lone(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(kafka.bootstrap_servers, tmp_path, f"lone-{uuid.uuid4().hex[:6]}", 1) as cluster:
        cluster.start()
        cluster.await_leader()
        yield cluster


def ensure_harmless(lone: Cluster, late: Observation, topic_name: str) -> None:
    """Deliver a record of the config topic again: the worker still runs what is created then."""
    writer = TopicWriter({"bootstrap.servers": lone.bootstrap}, late.topic)
    writer.write([(late.key or b"", late.value)], 20)
    writer.close()
    ok(lone.workers[0].create(topic_name, rows(topic_name, 10, 1)), 201)
    lone.workers[0].wait_for_tasks(topic_name, "RUNNING")


def test_a_late_leave_request_takes_nothing_from_the_successor(lone: Cluster, topic_name: str) -> None:
    worker, configs = lone.workers[0], f"{lone.group}-configs"
    assert worker.stop() == 0
    worker.process = None
    written = CommittedReader(lone.bootstrap, [configs]).read_all(20)
    last = [o for o in written if (o.key or b"").decode().endswith(url(worker))][-1]  # what it said of itself
    lone.start()
    ensure_harmless(lone, last, topic_name)


def test_a_late_announcement_takes_nothing_from_the_successor(lone: Cluster, topic_name: str) -> None:
    worker, configs = lone.workers[0], f"{lone.group}-configs"
    written = CommittedReader(lone.bootstrap, [configs]).read_all(20)  # a killed leader's transaction may stay open
    last = [o for o in written if (o.key or b"").decode().endswith(url(worker))][-1]
    worker.kill()
    lone.start()
    ensure_harmless(lone, last, topic_name)


def test_kafka_connect_can_join_the_group_at_once_after_a_clean_stop(lone: Cluster) -> None:
    worker = lone.workers[0]
    assert worker.stop() == 0
    worker.process = None
    assert Admin({"bootstrap.servers": lone.bootstrap}).groups.describe(lone.group).members == ()
    last = worker.log_text().strip().splitlines()[-1]
    assert "has left group" in last, last
    assert "can start at once" in last, last
