"""The config topic on the real broker: followed, waited for, compacted."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import ReadTimeoutError
from fencepost.kafka.read.follower import LogFollower
from fencepost.kafka.read.log import LogReader
from fencepost.storage import records
from fencepost.storage.change import (
    Change,
    ConnectorConfigUpdated,
    LoggerLevelSet,
    RestartRequested,
    TargetState,
    TargetStateChanged,
    TaskConfigsUpdated,
    TaskId,
)
from fencepost.storage.config_topic import ConfigTopic, TopicWriter
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.testing import eventually

RESTART = RestartRequested("a", True, False)


class Follower:
    """A worker's view: a config topic and the changes that it has reported."""

    def __init__(self, conf: dict[str, Any], topic: str) -> None:
        self.changes: list[Change] = []
        self.topic = ConfigTopic(conf, topic, self.take)

    def take(self, old: ClusterSnapshot, new: ClusterSnapshot, changes: Sequence[Change]) -> None:
        assert old.offset <= new.offset
        self.changes.extend(changes)


@pytest.fixture
def follow(conf: dict[str, Any], topic: str) -> Iterator[Callable[[], Follower]]:
    followers: list[Follower] = []

    def make() -> Follower:
        followers.append(Follower(conf, topic))
        followers[-1].topic.start(30)
        return followers[-1]

    yield make
    for follower in followers:
        follower.topic.stop()


def test_start_reports_the_contents_of_the_topic_except_old_requests(
    follow: Callable[[], Follower], topic: str, produce: Callable[..., None]
):
    produce(
        topic,
        records.connector_config("a", {"x": "1"}),
        records.restart_request(RESTART),
        records.logger_level("root", "DEBUG"),
    )
    follower = follow()
    assert follower.changes == [ConnectorConfigUpdated("a")]
    assert follower.topic.snapshot.connectors == {"a": {"x": "1"}}
    produce(topic, records.restart_request(RESTART), records.logger_level("root", "INFO"))
    follower.topic.read_to_end(60)
    assert follower.changes[1:] == [RESTART, LoggerLevelSet("root", "INFO")]


def test_records_written_before_the_call_are_read_and_reported(
    follow: Callable[[], Follower], conf: dict[str, Any], topic: str
):
    follower = follow()
    writer = TopicWriter(conf, topic)
    for state in [TargetState.PAUSED, TargetState.STARTED, TargetState.STOPPED] * 5:
        writer.write([records.target_state("a", state)], 10)
        snapshot = follower.topic.read_to_end(60)
        assert snapshot.target_state("a") is state
        assert follower.changes[-1] == TargetStateChanged("a", state)
    writer.close()


def test_read_waits_for_the_open_transaction_of_a_leader(
    follow: Callable[[], Follower], topic: str, transactional: Callable[[], Producer]
):
    follower = follow()
    leader = transactional()
    leader.begin_transaction()
    for key, value in (
        records.connector_config("a", {}),
        records.task_config(TaskId("a", 0), {}),
        records.tasks_commit("a", 1),
    ):
        leader.produce(topic, key=key, value=value)
    leader.flush(60)
    with pytest.raises(ReadTimeoutError, match="may still be open"):
        follower.topic.read_to_end(3)
    assert follower.changes == []
    threading.Timer(0.3, leader.commit_transaction, [60]).start()
    assert follower.topic.read_to_end(60).tasks("a") == (TaskId("a", 0),)
    assert follower.changes == [ConnectorConfigUpdated("a"), TaskConfigsUpdated("a")]


def test_records_committed_by_a_leader_are_read_past_their_offset(
    follow: Callable[[], Follower], topic: str, transactional: Callable[[], Producer]
):
    follower = follow()
    leader = transactional()
    for number in range(10):
        stands_at: list[int] = []
        leader.begin_transaction()
        for name in ("a", "b"):
            key, value = records.connector_config(name, {"x": str(number)})
            leader.produce(topic, key=key, value=value, on_delivery=lambda _, m, to=stands_at: to.append(m.offset()))
        leader.flush(60)
        with pytest.raises(ReadTimeoutError):
            follower.topic.read_past(stands_at[-1], 0.05)
        leader.commit_transaction(60)
        snapshot = follower.topic.read_past(stands_at[-1], 60)
        assert [snapshot.connectors[name] for name in "ab"] == [{"x": str(number)}] * 2
        assert follower.changes[-1] == ConnectorConfigUpdated("b")


class CountingReader(LogReader):
    """Counts how often it was asked to look for the end of its log."""

    looks = 0

    def go_on_at(self, positions: Mapping[int, int]) -> None:
        self.looks += 1
        super().go_on_at(positions)


def test_the_marker_of_a_transaction_that_was_read_is_not_waited_for(
    conf: dict[str, Any], topic: str, transactional: Callable[[], Producer], produce: Callable[..., None]
):
    found: list[bytes | None] = []
    end_reader = CountingReader(conf, topic)
    follower = LogFollower(
        LogReader(conf, topic, fetch_wait_ms=500), lambda record: found.append(record.key), lambda: None, end_reader
    )
    follower.start(30)
    leader = transactional()

    def commit(*keys: bytes, then: Callable[[], None] = lambda: None) -> None:
        stands_at: list[int] = []
        leader.begin_transaction()
        for key in keys:
            leader.produce(topic, key=key, on_delivery=lambda _, message: stands_at.append(message.offset()))
        leader.flush(60)
        then()
        leader.commit_transaction(60)
        follower.read_past(0, stands_at[-1], 60)

    try:
        for number in range(5):
            commit(f"{number}a".encode(), f"{number}b".encode())
            follower.read_to_end(60)
        assert end_reader.looks == 0
        commit(b"c")
        produce(topic, (b"after the marker", b""))
        follower.read_to_end(60)
        assert found[-1] == b"after the marker"
        commit(b"d", then=lambda: produce(topic, (b"before the marker", b"")))
        follower.read_to_end(60)
        assert found[-2:] == [b"d", b"before the marker"]
    finally:
        follower.stop()


def test_aborted_write_of_a_deposed_leader_is_never_seen(
    follow: Callable[[], Follower], topic: str, transactional: Callable[[], Producer]
):
    follower = follow()
    deposed = transactional()
    deposed.begin_transaction()
    deposed.produce(topic, key=b"connector-zombie", value=b'{"properties":{}}')
    deposed.flush(60)
    leader = transactional()
    leader.begin_transaction()
    leader.produce(topic, key=b"connector-a", value=b'{"properties":{}}')
    leader.commit_transaction(60)
    assert list(follower.topic.read_to_end(60).connectors) == ["a"]


def test_a_callback_that_raises_or_waits_does_not_stop_the_follower(
    conf: dict[str, Any], topic: str, produce: Callable[..., None]
):
    raised: list[Exception] = []

    def broken(*_: Any) -> None:
        try:
            followed.read_to_end(60)
        except Exception as error:
            raised.append(error)
            raise

    followed = ConfigTopic(conf, topic, broken)
    followed.start(30)
    for number in range(3):
        produce(topic, records.connector_config(f"c{number}", {}))
        assert f"c{number}" in followed.read_to_end(60).connectors
    followed.stop()
    assert {type(error) for error in raised} == {RuntimeError}


def test_compaction_leaves_the_same_cluster(
    admin: Admin, conf: dict[str, Any], topic_name: str, produce: Callable[..., None]
):
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "0",
    }
    admin.topics.create(topic_name, partitions=1, replication=1, configs=configs)
    clean_often(conf)

    def generation(name: str, tasks: int, text: str) -> list[records.Encoded]:
        each = [records.task_config(TaskId(name, n), {"n": text}) for n in range(tasks)]
        return [*each, records.tasks_commit(name, tasks), records.task_count(name, tasks)]

    # "old" and "gone" are deleted, and only "old" is created again; "half" loses a task config to a later commit.
    produce(topic_name, records.connector_config("old", {}), *generation("old", 3, "1"))
    produce(topic_name, records.connector_config("gone", {}), *generation("gone", 2, "1"))
    produce(topic_name, records.connector_removed("old"), records.connector_removed("gone"))
    produce(topic_name, records.connector_config("old", {}), *generation("old", 2, "2"))
    produce(topic_name, records.connector_config("half", {}), *generation("half", 2, "1"))
    produce(topic_name, records.task_config(TaskId("half", 1), {"n": "2"}))
    before = ConfigTopic(conf, topic_name)
    expected = before.start(30)
    before.stop()

    def is_compacted() -> bool:
        # Every write rolls the segment before it, which may then be cleaned.
        produce(topic_name, records.logger_level("root", "INFO"))
        found: list[bytes | None] = []
        reader = LogReader(conf, topic_name)
        reader.read_to_end(10, lambda record: found.append(record.key))
        reader.close()
        return (
            found.count(b"task-old-0") == 1 and found.count(b"task-half-1") == 1 and found.count(b"connector-gone") == 0
        )

    eventually(is_compacted, within_s=60, every_s=0.5)
    after = ConfigTopic(conf, topic_name)
    snapshot = after.start(30)
    after.stop()
    assert set(snapshot.connectors) == {"old", "half"} == set(expected.connectors)
    assert snapshot.tasks("old") == expected.tasks("old") == (TaskId("old", 0), TaskId("old", 1))
    assert snapshot.commit_offsets["old"] == expected.commit_offsets["old"]
    assert snapshot.task_count_records == {"old": 2, "gone": 2, "half": 2}
    # Its second task config now stands after the commit record: incomplete, to be reconfigured.
    assert expected.inconsistent == frozenset()
    assert snapshot.inconsistent == {"half"}
    assert snapshot.tasks("half") == ()


def test_follower_survives_a_restart_of_the_broker(own_kafka: EmbeddedKafka, topic_name: str):
    conf = {"bootstrap.servers": own_kafka.bootstrap_servers}
    Admin(conf).topics.create(topic_name, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    follower = Follower(conf, topic_name)
    follower.topic.start(30)
    writer = TopicWriter(conf, topic_name)
    writer.write([records.target_state("a", TargetState.PAUSED)], 10)
    own_kafka.kill()
    own_kafka.start()
    writer.write([records.target_state("a", TargetState.STOPPED)], 30)
    assert follower.topic.read_to_end(30).target_state("a") is TargetState.STOPPED
    assert follower.changes == [
        TargetStateChanged("a", TargetState.PAUSED),
        TargetStateChanged("a", TargetState.STOPPED),
    ]
    follower.topic.stop()
    writer.close()


def clean_often(conf: dict[str, Any]) -> None:
    """Lets the broker look for logs to compact every 100 ms instead of every 15 s."""
    entry = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    client = AdminClient(conf)
    client.incremental_alter_configs([resource])[resource].result(30)
