"""The access of a mirror's connector at both clusters, from the settings that its clients are actually made with."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fencepost.builtin.mirror.checkpoint.connector import MirrorCheckpointConnector
from fencepost.builtin.mirror.heartbeat import MirrorHeartbeatConnector
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.mirror_settings import MirrorSettings
from fencepost.builtin.mirror.sink.connector import MirrorSinkConnector
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.cli.acls.clients import UNKNOWN_TOPIC, Principals
from fencepost.cli.acls.mirror_rights import MirrorAccess, MirrorEnd
from fencepost.cli.acls.rights import EVERY, ConnectorAccess
from fencepost.config import ConfigError
from fencepost.kafka.setting.client_settings import admin_conf, producer_conf, reader_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.worker.connector_classes import class_of

_NO_NAME = re.compile(r"[^a-zA-Z0-9._-]")


def mirror_access(
    connector: Mapping[str, str], base: ConnectorAccess, principals: Principals, topics: Sequence[str] = ()
) -> tuple[ConnectorAccess, MirrorAccess] | None:
    """Return the access of a mirror's connector, as any source and as a mirror; None for any other connector.

    Args:
        base: Its access as any source, except for its topics.
        topics: The topics of the source cluster; if empty, those of its config.

    Raises:
        ConfigError: The config is wrong.
    """
    mirror = _mirror_of(connector)
    if mirror is None:
        return None
    policy, alias = mirror.policy(), mirror.source_cluster_alias
    source, target = (_end(mirror, each, principals) for each in FlowEnd)
    own = MirrorAccess(base.name, source, target, base.producer, base.admin)
    if isinstance(mirror, MirrorHeartbeatConnector):
        topic = policy.heartbeats_topic()
        return replace(base, topics=(topic,), tasks=1), replace(own, made=topic)
    assert isinstance(mirror, MirrorSourceConnector | MirrorCheckpointConnector)
    named = tuple(topics) or _names(mirror.topics) or (UNKNOWN_TOPIC,)
    own = replace(
        own,
        topics={topic: policy.format_remote_topic(alias, topic) for topic in named},
        syncs=mirror.offset_syncs_topic() if mirror.emit_offset_syncs else "",
        has_syncs_at_source=mirror.offset_syncs_cluster() is FlowEnd.SOURCE,
    )
    if isinstance(mirror, MirrorCheckpointConnector):
        topic, groups = policy.checkpoints_topic(alias), _names(mirror.groups) or (EVERY,)
        own = replace(own, made=topic, groups=groups, commits_groups=mirror.syncs_group_offsets)
        return replace(base, topics=(topic,)), own
    held = mirror.held(base.name).group if isinstance(mirror, MirrorSinkConnector) else ""
    own = replace(
        own,
        mirrors=True,
        group=held,
        has_configs=mirror.sync_topic_configs_enabled,
        has_acls=mirror.sync_topic_acls_enabled,
    )
    return replace(base, topics=tuple(own.topics.values())), own


def _mirror_of(connector: Mapping[str, str]) -> MirrorSettings | None:
    try:
        found = class_of(connector)
    except ConfigError:
        return None
    return found(connector) if issubclass(found, MirrorSettings) else None


def _names(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the names in a list; nothing if it has a pattern, whose names are unknown."""
    return () if any(_NO_NAME.search(each) for each in patterns) else tuple(patterns)


def _end(mirror: MirrorSettings, cluster: FlowEnd, principals: Principals) -> MirrorEnd:
    role = cluster.value
    return MirrorEnd(
        principals.of(role, admin_conf(mirror.client(cluster, ClientKind.ADMIN, "")).conf),
        principals.of(role, reader_conf(mirror.client(cluster, ClientKind.CONSUMER, "")).conf),
        principals.of(role, producer_conf(mirror.client(cluster, ClientKind.PRODUCER, "")).conf),
    )
