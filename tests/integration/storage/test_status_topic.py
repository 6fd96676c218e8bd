"""The status topic on the real broker: read back, written in the background, latest wins."""

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader
from fencepost.storage.change import TaskId
from fencepost.storage.status_topic import State, Status, StatusTopic
from fencepost.testing import eventually

TASK = TaskId("c", 0)
RUNNING = Status(State.RUNNING, "w1:1", 1)


@pytest.fixture
def status_topic(conf: dict[str, Any], admin: Admin, topic_name: str) -> Iterator[StatusTopic]:
    admin.topics.create(topic_name, partitions=5, replication=1, configs={"cleanup.policy": "compact"})
    followed = StatusTopic(conf, conf, topic_name)
    followed.start(30)
    yield followed
    followed.stop()


def settle(topic: StatusTopic) -> None:
    assert topic.flush(60)
    topic.read_to_end(60)


def test_statuses_are_read_back_by_every_reader(status_topic: StatusTopic, conf: dict[str, Any], topic_name: str):
    failed = Status(State.FAILED, "w1:1", 2, trace="Boom", version="1.0")
    status_topic.put("c", RUNNING)
    status_topic.put(TASK, failed)
    status_topic.put_topic("c", "prices", 0, 1)
    settle(status_topic)
    other = StatusTopic(conf, conf, topic_name)
    other.start(30)
    for table in (status_topic.table, other.table):
        assert table.connectors() == {"c": RUNNING}
        assert table.tasks("c") == {0: failed}
        assert table.topics("c") == ("prices",)
    other.remove(TASK)
    other.remove_topic("c", "prices")
    assert other.flush(60)
    status_topic.read_to_end(60)
    assert status_topic.table.tasks("c") == {}
    assert status_topic.table.topics("c") == ()
    other.stop()


def test_safe_put_yields_to_a_later_generation_of_another_worker(status_topic: StatusTopic):
    newer = Status(State.RUNNING, "w2:1", 5)
    status_topic.put(TASK, newer)
    settle(status_topic)
    assert not status_topic.put_safe(TASK, Status(State.FAILED, "w1:1", 4))
    assert status_topic.put_safe(TASK, Status(State.FAILED, "w2:1", 4))
    settle(status_topic)
    assert status_topic.put_safe(TASK, Status(State.UNASSIGNED, "w1:1", 6))


def test_latest_status_wins_while_the_broker_is_away(own_kafka: EmbeddedKafka, topic_name: str):
    conf = {"bootstrap.servers": own_kafka.bootstrap_servers}
    Admin(conf).topics.create(topic_name, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    topic = StatusTopic(conf, conf, topic_name)
    topic.start(30)
    own_kafka.kill()
    for generation in range(1_000):
        topic.put(TASK, Status(State.RUNNING, "w1:1", generation))
    assert not topic.flush(0.5)
    own_kafka.start()
    eventually(lambda: topic.table.tasks("c") == {0: Status(State.RUNNING, "w1:1", 999)}, within_s=60)
    written: list[bytes | None] = []
    reader = LogReader(conf, topic_name)
    reader.read_to_end(60, lambda record: written.append(record.value))
    assert len(written) <= 3
    reader.close()
    topic.stop()
