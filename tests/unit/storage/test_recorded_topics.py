"""Interchange: our encoders and readers against what a real Kafka Connect 4.3.1 wrote."""

import json

import pytest
from recorded import Recorded, recorded_topic

from fencepost.kafka.read.log import LogRecord
from fencepost.storage import records
from fencepost.storage.change import RestartRequested, SessionKey, TargetState, TaskId
from fencepost.storage.fold import apply
from fencepost.storage.offset_topic import OffsetTable, encode, stored
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder
from fencepost.storage.status_topic import State, Status, StatusTable
from fencepost.storage.status_topic import apply as apply_status
from support.partitioner import partition_for


@pytest.fixture(scope="module")
def snapshot() -> ClusterSnapshot:
    builder = SnapshotBuilder()
    for record in recorded_topic("config").records:
        apply(builder, record.offset, record.key_bytes, record.value_bytes)
    return builder.freeze()


@pytest.mark.parametrize("which", ["config", "offset", "status"])
def test_our_partitioner_agrees_with_every_recorded_key(which: str):
    topic = recorded_topic(which)
    assert [partition_for(r.key_bytes, topic.partitions) for r in topic.records] == [r.partition for r in topic.records]


def test_recorded_config_topic_folds_into_the_final_cluster_state(snapshot: ClusterSnapshot):
    assert set(snapshot.connectors) == {"lines", "asleep"}
    assert snapshot.target_states == {"lines": TargetState.STARTED, "asleep": TargetState.PAUSED}
    assert snapshot.connectors["lines"]["topic"] == "more-lines"
    assert snapshot.tasks("lines") == (TaskId("lines", 0),)
    assert (
        snapshot.task_config(TaskId("lines", 0))["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"
    )
    assert snapshot.tasks("asleep") == ()
    assert snapshot.inconsistent == frozenset()
    assert snapshot.is_ready("lines")
    assert snapshot.task_count_records["many-tasks"] == 1
    assert len(snapshot.session_key.key) == 32
    assert snapshot.offset == recorded_topic("config").records[-1].offset + 1


def test_recorded_generations_count_every_commit(snapshot: ClusterSnapshot):
    commits = [r for r in recorded_topic("config").records if r.key == "commit-lines"]
    assert snapshot.generation("lines") == len(commits) - 1
    assert snapshot.generation("many-tasks") == 2


def test_compaction_changes_only_the_count_of_generations(snapshot: ClusterSnapshot):
    newest = {r.key: r for r in recorded_topic("config").records}
    builder = SnapshotBuilder()
    for record in sorted(newest.values(), key=lambda r: r.offset):
        apply(builder, record.offset, record.key_bytes, record.value_bytes)
    compacted = builder.freeze()
    for name in ("connectors", "target_states", "task_counts", "task_count_records", "inconsistent"):
        assert getattr(compacted, name) == getattr(snapshot, name), name
    # Kafka Connect records no round of fencing for sinks: those that were deleted are pending until compaction.
    assert compacted.pending_fencing == snapshot.pending_fencing & snapshot.connectors.keys()
    assert {c: compacted.commit_offsets[c] for c in compacted.connectors if c in compacted.commit_offsets} == {
        c: snapshot.commit_offsets[c] for c in snapshot.connectors if c in snapshot.commit_offsets
    }


def encoded_again(record: Recorded) -> records.Encoded:
    """What we write where Kafka Connect wrote `record`, from the meaning of its value."""
    key, value = record.key, record.json
    if key == "session-key":
        builder = SnapshotBuilder()
        apply(builder, 0, record.key_bytes, record.value_bytes)
        assert isinstance(builder.session_key, SessionKey)
        return records.session_key(builder.session_key)
    if key.startswith("target-state-"):
        name = key.removeprefix("target-state-")
        return (
            records.target_state(name, TargetState(value["state.v2"])) if value else records.target_state_removed(name)
        )
    if key.startswith("connector-"):
        name = key.removeprefix("connector-")
        return records.connector_config(name, value["properties"]) if value else records.connector_removed(name)
    if key.startswith("task-"):
        return records.task_config(records.parse_task(key.removeprefix("task-")), value["properties"])
    if key.startswith("commit-"):
        return records.tasks_commit(key.removeprefix("commit-"), value["tasks"])
    if key.startswith("tasks-fencing-"):
        return records.task_count(key.removeprefix("tasks-fencing-"), value["task-count"])
    if key.startswith("restart-connector-"):
        name = key.removeprefix("restart-connector-")
        return records.restart_request(RestartRequested(name, value["include-tasks"], value["only-failed"]))
    assert key.startswith("logger-cluster-"), key
    return records.logger_level(key.removeprefix("logger-cluster-"), value["level"])


@pytest.mark.parametrize("record", recorded_topic("config").records, ids=lambda r: f"{r.offset}-{r.key}")
def test_our_config_records_equal_recorded_ones_byte_for_byte(record: Recorded):
    assert encoded_again(record) == (record.key_bytes, record.value_bytes)


def test_our_status_records_equal_recorded_ones_byte_for_byte():
    kinds = set()
    for record in recorded_topic("status").records:
        table = StatusTable()
        apply_status(table, record.key_bytes, record.value_bytes)
        if record.value is None:
            continue
        if record.key.startswith("status-topic-"):
            value = record.json["topic"]
            ours = records.topic_status(value["connector"], value["name"], value["task"], value["discoverTimestamp"])
        else:
            (subject,) = table.subjects()
            is_task = isinstance(subject, TaskId)
            key = records.task_status_key(subject) if is_task else records.connector_status_key(subject)
            ours = key, table.status(subject).encode()
        kinds.add(record.key.split("-")[1])
        assert ours == (record.key_bytes, record.value_bytes)
    assert kinds == {"connector", "task", "topic"}


def test_recorded_status_topic_folds_into_the_final_statuses():
    table = StatusTable()
    for record in recorded_topic("status").records:
        apply_status(table, record.key_bytes, record.value_bytes)
    assert set(table.connectors()) == {"lines", "asleep"}
    status = table.status("lines")
    assert status == Status(State.UNASSIGNED, "127.0.0.1:28083", status.generation, None, "4.3.1")


def test_our_offset_records_equal_recorded_ones():
    for record in recorded_topic("offset").records:
        connector, partition = json.loads(record.key)
        key, value = encode(connector, partition, record.json)
        assert key == record.key_bytes
        assert value == record.value_bytes


def test_recorded_offsets_are_read():
    table = OffsetTable()
    for r in recorded_topic("offset").records:
        table.apply(LogRecord(r.partition, r.offset, 0, r.key_bytes, r.value_bytes))
    assert [one.partition for one in stored(table.known("lines"))] == [{"filename": "input.txt"}]
    assert sorted(one.partition["id"] for one in stored(table.known("many-tasks"))) == [0, 1, 2]
