"""MirrorHeartbeatConnector: what it sends, and what offsets it takes."""

from typing import Any

import pytest

from fencepost.api import Batch, ConfigError, ConnectError
from fencepost.builtin.mirror.formats import Heartbeat
from fencepost.builtin.mirror.heartbeat import MirrorHeartbeatConnector, MirrorHeartbeatTask
from fencepost.builtin.mirror.schedule import IntervalTimer
from fencepost.record import partition_key
from fencepost.record.schema import BYTES
from support.task_context import Context

GIVEN = {
    "name": "h",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "target.cluster.bootstrap.servers": "127.0.0.1:1",
}
PARTITION = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}


def started(**more: str) -> MirrorHeartbeatTask:
    task = MirrorHeartbeatTask()
    task.initialize(Context(), MirrorHeartbeatConnector({**GIVEN, **more}))
    task.start()
    return task


def test_heartbeat_record_has_the_format_of_kafka() -> None:
    batch = started().poll()
    assert isinstance(batch, Batch)
    record = batch.record(0)
    beat = Heartbeat.decode(record.key, record.value)
    assert (beat.source_cluster_alias, beat.target_cluster_alias) == ("A", "B")
    assert (record.topic, record.kafka_partition, record.timestamp) == ("heartbeats", 0, beat.timestamp_ms)
    assert (record.key_schema, record.value_schema) == (BYTES, BYTES)
    assert (record.source_partition, record.source_offset) == (PARTITION, {"offset": 0})


def test_next_heartbeat_waits_for_the_interval() -> None:
    task = started(**{"emit.heartbeats.interval.seconds": "3600"})
    assert task.poll() is not None
    assert task.poll() is None
    assert 3_000 < task.context.waits[-1] <= 3_600  # type: ignore[attr-defined]


def test_a_beat_is_due_at_once_and_then_every_interval() -> None:
    now = [50.0]
    beat = IntervalTimer(2.0, lambda: now[0])
    assert beat.take()
    assert (beat.take(), beat.left_s()) == (False, 2.0)
    now[0] = 51.5
    assert (beat.take(), beat.left_s()) == (False, 0.5)
    now[0] = 59.0
    assert beat.take()
    assert beat.left_s() == 2.0, "what was missed is not made up for"


def test_heartbeat_connector_requires_the_target_cluster() -> None:
    with pytest.raises(ConfigError, match=r"target\.cluster\.bootstrap\.servers"):
        MirrorHeartbeatConnector({"source.cluster.alias": "A"})


@pytest.mark.parametrize("key", ["enabled", "emit.heartbeats.enabled"])
def test_disabled_heartbeat_connector_has_no_tasks(key: str) -> None:
    assert MirrorHeartbeatConnector({**GIVEN, key: "false"}).task_configs(3) == []


@pytest.mark.parametrize(
    ("partition", "offset", "fault"),
    [
        (PARTITION, {"offset": 0}, None),
        (PARTITION, None, None),
        ({"any": 1}, None, None),
        (PARTITION, {"offset": 1}, "needs 0, because it is not read"),
        (PARTITION, {"offset": False}, "needs 0, because it is not read"),
        (PARTITION, {}, "needs 0, because it is not read"),
        ({"sourceClusterAlias": "A"}, {"offset": 0}, "needs a text as 'targetClusterAlias'"),
        ({**PARTITION, "sourceClusterAlias": 5}, {"offset": 0}, "needs a text as 'sourceClusterAlias'"),
    ],
)
def test_altered_offsets_are_validated(
    partition: dict[str, Any], offset: dict[str, Any] | None, fault: str | None
) -> None:
    connector = MirrorHeartbeatConnector(GIVEN)
    given = {partition_key(partition): offset}
    if fault is None:
        assert connector.alter_offsets(given)
    else:
        with pytest.raises(ConnectError, match=fault):
            connector.alter_offsets(given)
