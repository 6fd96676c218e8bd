"""Internal topics that get more partitions while somebody reads them."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from fencepost.config import ConfigError
from fencepost.config.cluster import InternalTopicConfig
from fencepost.kafka.admin.client import Admin
from fencepost.storage import records
from fencepost.storage.change import TaskId
from fencepost.storage.config_topic import ConfigTopic, TopicWriter
from fencepost.storage.internal_topics import check_config_topic
from fencepost.storage.offset_topic import OffsetReader, StoredOffset, encode, stored
from fencepost.storage.status_topic import State, Status, StatusTopic
from fencepost.testing import eventually

FILES = [{"filename": f"f{n}"} for n in range(20)]
MANY = 30


@pytest.fixture
def widen(conf: dict[str, Any], topic: str, admin: Admin) -> Callable[[], None]:
    """Gives the topic, which has one partition, many."""

    def act() -> None:
        client = AdminClient(conf)
        client.create_partitions([NewPartitions(topic, MANY)])[topic].result(30)
        eventually(lambda: admin.topics.partitions(topic) == MANY)

    return act


@pytest.fixture
def reader(conf: dict[str, Any], topic: str) -> Iterator[OffsetReader]:
    kept = OffsetReader(conf, topic)
    yield kept
    kept.close()


def write(conf: dict[str, Any], topic: str, position: int) -> None:
    """Write like a task that starts now: its producer knows the present partitions."""
    producer = Producer({**conf, "partitioner": "murmur2_random"})
    for file in FILES:
        key, value = encode("c", file, {"position": position})
        producer.produce(topic, key=key, value=value)
    assert producer.flush(30) == 0


def positions(reader: OffsetReader) -> set[int]:
    found = stored(reader.read_known("c", 30))
    assert len(found) == len(FILES)
    return {one.offset["position"] for one in found}


def test_offsets_in_partitions_that_were_added_are_read(
    reader: OffsetReader, conf: dict[str, Any], topic: str, widen: Callable[[], None]
):
    write(conf, topic, 1)
    assert positions(reader) == {1}
    widen()
    write(conf, topic, 2)
    assert positions(reader) == {2}
    replayed = OffsetReader(conf, topic)
    assert positions(replayed) == {2}
    replayed.close()


def test_the_newer_offset_wins_in_any_order_of_partitions(
    reader: OffsetReader, conf: dict[str, Any], topic: str, widen: Callable[[], None]
):
    """A key that moved has an old offset where it was, which a reader may come by last."""
    widen()
    producer = Producer(conf)
    key, new = encode("c", FILES[0], {"position": 2})
    _, old = encode("c", FILES[0], {"position": 1})
    for partition, value, timestamp in ((3, new, 2_000), (7, old, 1_000)):
        producer.produce(topic, key=key, value=value, partition=partition, timestamp=timestamp)
        assert producer.flush(30) == 0
        assert stored(reader.read_known("c", 30)) == [StoredOffset(FILES[0], {"position": 2})]


def test_read_waits_for_an_open_transaction_in_a_partition_that_was_added(
    reader: OffsetReader, topic: str, widen: Callable[[], None], transactional: Callable[[], Producer]
):
    assert reader.read_known("c", 30) == []
    widen()
    producer = transactional()
    producer.begin_transaction()
    key, value = encode("c", FILES[0], {"position": 1})
    producer.produce(topic, key=key, value=value, partition=MANY - 1)
    producer.flush(30)
    threading.Timer(0.3, producer.commit_transaction, [60]).start()
    assert stored(reader.read_known("c", 30)) == [StoredOffset(FILES[0], {"position": 1})]


def test_statuses_in_partitions_that_were_added_are_followed(
    conf: dict[str, Any], topic: str, widen: Callable[[], None]
):
    def generations(statuses: StatusTopic) -> set[int]:
        return {status.generation for status in statuses.table.tasks("c").values()}

    follower, writer = (StatusTopic(conf, conf, topic) for _ in range(2))
    for one in (follower, writer):
        one.start(30)
    for generation in (1, 2):
        for number in range(20):
            writer.put(TaskId("c", number), Status(State.RUNNING, "w1:1", generation))
        assert writer.flush(30)
        if generation == 1:
            follower.read_to_end(30)
            assert generations(follower) == {1}
            widen()
            writer.stop()
            writer = StatusTopic(conf, conf, topic)
            writer.start(30)
    eventually(lambda: generations(follower) == {2}, within_s=60)  # by itself
    replayed = StatusTopic(conf, conf, topic)
    replayed.start(30)
    assert generations(replayed) == {2}
    for one in (follower, writer, replayed):
        one.stop()


def test_writes_to_a_config_topic_with_added_partitions_are_read(
    conf: dict[str, Any], topic: str, widen: Callable[[], None]
):
    followed = ConfigTopic(conf, topic)
    followed.start(30)
    widen()
    writer = TopicWriter(conf, topic)
    names = {f"c{n}" for n in range(20)}
    writer.write([records.connector_config(name, {"name": name}) for name in names], 30)
    assert followed.read_to_end(30).connectors.keys() == names
    writer.close()
    followed.stop()


def test_a_config_topic_with_added_partitions_is_refused(admin: Admin, topic: str, widen: Callable[[], None]):
    config = InternalTopicConfig(
        {"config.storage.topic": topic, "offset.storage.topic": "o", "status.storage.topic": "s"}
    )
    check_config_topic(admin, config)
    widen()
    with pytest.raises(ConfigError, match=r"'config.storage.topic' .*single partition .*found 30 partitions"):
        check_config_topic(admin, config)
