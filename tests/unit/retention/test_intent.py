"""What is written before a deletion: by whoever leads, while the same sinks read, or not at all (E9)."""

from collections.abc import Callable

import pytest

from fencepost.cluster.command import EVERY_CONNECTOR, ConnectorCommand, PutConnector, RemoveConnector, independent
from fencepost.cluster.errors import ConflictError
from fencepost.retention.keeper import GiveUpRecords
from fencepost.retention.survey import Readings, SinkReading
from fencepost.storage import records
from fencepost.storage.change import TopicRetention
from fencepost.storage.snapshot import ClusterSnapshot
from support.memory_topic import MemoryTopic

SINK = {"connector.class": "FileStreamSink", "topics": "t"}


def look(snapshot: ClusterSnapshot) -> Readings:
    return tuple(
        SinkReading(name, config.get("group") or name, frozenset({config.get("topics") or ""}), "", "")
        for name, config in sorted(snapshot.connectors.items())
    )


@pytest.fixture
def topic() -> MemoryTopic:
    """A config topic with one sink."""
    topic = MemoryTopic()
    topic.write(records.connector_config("a", SINK))
    return topic


def decided(topic: MemoryTopic, is_current: Callable[[], bool] = lambda: True, until: int = 7) -> GiveUpRecords:
    """Return the command of who looks at the topic now."""
    snapshot = topic.snapshot
    before = {"t": snapshot.retention.get("t")}
    return GiveUpRecords({"t": TopicRetention("id", {0: until})}, before, look(snapshot), look, is_current)


def test_deletion_is_recorded_before_it_happens(topic: MemoryTopic) -> None:
    topic.write(*decided(topic).decide(topic.snapshot))
    assert topic.snapshot.retention == {"t": TopicRetention("id", {0: 7})}


def test_retention_record_of_a_deleted_topic_is_removed(topic: MemoryTopic) -> None:
    topic.write(*decided(topic).decide(topic.snapshot))
    known, found = topic.snapshot.retention["t"], look(topic.snapshot)
    topic.write(*GiveUpRecords({"t": None}, {"t": known}, found, look, lambda: True).decide(topic.snapshot))
    assert topic.snapshot.retention == {}


@pytest.mark.parametrize(
    "change",
    [
        records.connector_config("b", SINK),
        records.connector_config("a", {**SINK, "topics": "u"}),
        records.connector_config("a", {**SINK, "group": "g"}),
        records.connector_removed("a"),
    ],
    ids=["created", "other topics", "another group", "deleted"],
)
def test_deletion_is_refused_when_the_sinks_have_changed(topic: MemoryTopic, change: records.Encoded) -> None:
    command = decided(topic)
    topic.write(change)
    with pytest.raises(ConflictError, match="nothing is"):
        command.decide(topic.snapshot)


def test_deletion_is_allowed_when_a_sink_changes_an_unrelated_setting(topic: MemoryTopic) -> None:
    command = decided(topic)
    topic.write(records.connector_config("a", {**SINK, "file": "g"}))
    assert command.decide(topic.snapshot)


def test_deletion_is_refused_when_another_leader_recorded_one(topic: MemoryTopic) -> None:
    command, other = decided(topic), decided(topic, until=3)
    topic.write(*other.decide(topic.snapshot))
    with pytest.raises(ConflictError, match="topic t in the meantime"):
        command.decide(topic.snapshot)


def test_deletion_is_allowed_when_another_topic_changes_its_record(topic: MemoryTopic) -> None:
    command = decided(topic)
    topic.write(records.topic_retention("u", TopicRetention("id", {0: 1})))
    assert command.decide(topic.snapshot)


def test_deletion_is_refused_when_leadership_has_changed(topic: MemoryTopic) -> None:
    """What another leader lets a user change in between, an offset for example, is nowhere in the config topic."""
    with pytest.raises(ConflictError, match="Another worker may have been leader"):
        decided(topic, is_current=lambda: False).decide(topic.snapshot)


def test_retention_command_runs_alone(topic: MemoryTopic) -> None:
    everything: ConnectorCommand = decided(topic)
    put, remove = PutConnector("b", SINK), RemoveConnector("a")
    assert everything.connector == EVERY_CONNECTOR
    assert independent([everything, put], 9) == 1
    assert independent([everything, everything], 9) == 1
    assert independent([put, remove, everything, put], 9) == 2
    assert independent([put, remove], 9) == 2
