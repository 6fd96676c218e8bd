"""The settings of the connectors of a mirror."""

import pytest

from fencepost.api import ConfigError
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.mirror_settings import (
    IdentityReplicationPolicy,
    MirrorSettings,
    OffsetSyncSettings,
    ReplicationSettings,
    SourceClusterSettings,
)
from fencepost.kafka.setting.table import ClientKind

GIVEN = {"name": "m", "source.cluster.alias": "A", "target.cluster.alias": "B"}


def test_only_the_alias_of_the_source_is_required() -> None:
    found = MirrorSettings({"source.cluster.alias": "A"})
    assert (found.flow, found.is_enabled, found.admin_timeout_ms) == ("A->target", True, 60_000)
    with pytest.raises(ConfigError, match=r"source\.cluster\.alias"):
        MirrorSettings({})


def test_replication_policy_is_found_by_its_java_name() -> None:
    name = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert type(MirrorSettings({**GIVEN, "replication.policy.class": name}).policy()) is IdentityReplicationPolicy


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("target.cluster.alias", "A", r"target\.cluster\.alias: it is the source's alias, too"),
        ("replication.policy.class", "Nonsense", r"replication\.policy\.class: Class Nonsense could not be found"),
        ("forwarding.admin.class", "com.acme.Admin", r"forwarding\.admin\.class: custom classes"),
        ("source.admin.request.timeout.ms", "soon", r"configuration source\.admin\.request\.timeout\.ms: "),
    ],
)
def test_invalid_mirror_setting_is_named_in_the_error(key: str, value: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        MirrorSettings({**GIVEN, key: value})


def test_a_cluster_without_addresses_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"source\.cluster\.bootstrap\.servers"):
        SourceClusterSettings({})


@pytest.mark.parametrize(
    ("location", "cluster", "topic"),
    [
        ("source", FlowEnd.SOURCE, "mm2-offset-syncs.B.internal"),
        ("target", FlowEnd.TARGET, "mm2-offset-syncs.A.internal"),
    ],
)
def test_offset_syncs_topic_has_the_alias_of_the_other_cluster(location: str, cluster: FlowEnd, topic: str) -> None:
    found = OffsetSyncSettings({**GIVEN, "offset-syncs.topic.location": location})
    assert (found.offset_syncs_cluster(), found.offset_syncs_topic()) == (cluster, topic)


def test_clients_are_named_after_flow_connector_and_role() -> None:
    found = MirrorSettings({**GIVEN, "source.cluster.bootstrap.servers": "a:1"})
    assert found.client(FlowEnd.SOURCE, ClientKind.CONSUMER, "reader") == {
        "bootstrap.servers": "a:1",
        "client.id": "A->B|m|reader",
    }


# As MirrorSourceConfig of Kafka 4.3.1 has them.
DEFAULTS = {
    "enabled": True,
    "admin.timeout.ms": 60_000,
    "replication.policy.separator": ".",
    "replication.policy.internal.topic.separator.enabled": True,
    "consumer.poll.timeout.ms": 1_000,
    "refresh.topics.enabled": True,
    "refresh.topics.interval.seconds": 600,
    "sync.topic.configs.enabled": True,
    "sync.topic.configs.interval.seconds": 600,
    "sync.topic.acls.enabled": True,
    "sync.topic.acls.interval.seconds": 600,
    "replication.factor": 2,
    "offset-syncs.topic.replication.factor": 3,
    "offset.lag.max": 100,
    "offset-syncs.topic.location": "source",
    "emit.offset-syncs.enabled": True,
    "heartbeats.replication.enabled": True,
}


def test_defaults_are_those_of_mirrormaker() -> None:
    declared = ReplicationSettings.settings()
    assert {key: declared[key].default for key in DEFAULTS} == DEFAULTS
