"""MirrorCheckpointConnector: its settings, and what offsets it takes."""

from typing import Any

import pytest

from fencepost.api import ConfigError, ConnectError
from fencepost.builtin.mirror.checkpoint.connector import MirrorCheckpointConnector
from fencepost.record import partition_key

GIVEN = {
    "name": "c",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.bootstrap.servers": "127.0.0.1:1",
}
PARTITION = {"group": "g", "topic": "A.t", "partition": 0}
# As MirrorCheckpointConfig of Kafka 4.3.1 has them.
DEFAULTS = {
    "groups": [".*"],
    "groups.exclude": ["console-consumer-.*", "connect-.*", "__.*"],
    "refresh.groups.enabled": True,
    "refresh.groups.interval.seconds": 600,
    "emit.checkpoints.enabled": True,
    "emit.checkpoints.interval.seconds": 60,
    "sync.group.offsets.enabled": False,
    "sync.group.offsets.interval.seconds": 60,
    "checkpoints.topic.replication.factor": 3,
    "offset-syncs.topic.location": "source",
}


def test_defaults_are_those_of_mirrormaker() -> None:
    declared = MirrorCheckpointConnector.settings()
    assert {key: declared[key].default for key in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize("key", ["emit.checkpoints.enabled", "emit.offset-syncs.enabled"])
def test_checkpoint_connector_without_checkpoints_must_be_disabled(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}: there would be no checkpoints.*enabled=false"):
        MirrorCheckpointConnector({**GIVEN, key: "false"})
    assert MirrorCheckpointConnector({**GIVEN, key: "false", "enabled": "false"}).task_configs(3) == []


def test_checkpoint_connector_requires_both_clusters() -> None:
    with pytest.raises(ConfigError) as caught:
        MirrorCheckpointConnector({"source.cluster.alias": "A"})
    assert [key in str(caught.value) for key in GIVEN if key.endswith("servers")] == [True, True]


@pytest.mark.parametrize(
    ("partition", "offset", "fault"),
    [
        (PARTITION, {"offset": 0}, None),
        ({"any": 1}, None, None),
        (PARTITION, {"offset": 7}, "needs 0, because it is not read"),
        ({**PARTITION, "partition": -1}, {"offset": 0}, "needs a partition number"),
        ({**PARTITION, "partition": 1 << 31}, {"offset": 0}, "needs a partition number"),
        ({**PARTITION, "group": None}, {"offset": 0}, "needs a text as 'group'"),
    ],
)
def test_altered_offsets_are_validated(
    partition: dict[str, Any], offset: dict[str, Any] | None, fault: str | None
) -> None:
    connector = MirrorCheckpointConnector(GIVEN)
    given = {partition_key(partition): offset}
    if fault is None:
        assert connector.alter_offsets(given)
    else:
        with pytest.raises(ConnectError, match=fault):
            connector.alter_offsets(given)
