"""The principals of the Kafka clients of workers, connectors and mirrors, from the clients' own settings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.builtin.mirror.checkpoint.connector import MirrorCheckpointConnector
from fencepost.builtin.mirror.heartbeat import MirrorHeartbeatConnector
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.mirror_settings import MirrorSettings
from fencepost.builtin.mirror.sink.connector import MirrorSinkConnector
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.cli.cluster.rights import (
    EVERY,
    ClientIdentity,
    ConnectorAccess,
    MirrorAccess,
    MirrorEnd,
    SinkAccess,
    StreamAccess,
    WorkerAccess,
)
from fencepost.cluster.info import ConnectorType
from fencepost.config import ConfigError
from fencepost.config.connector import (
    DeadLetterConfig,
    SinkChoice,
    SinkConnectorConfig,
    SourceConnectorConfig,
)
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.setting.client_settings import admin_conf, producer_conf, reader_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.plugin import PluginKind
from fencepost.plugin.builtin import BUILT_IN, ROUTERS
from fencepost.worker.connector_classes import class_of, is_dataframe_config, type_of_config
from fencepost.worker.plan import Client, ConnectorPlan
from fencepost.worker.settings import WorkerSettings

_OF_WORKERS = ("worker", "producer", "consumer", "admin")
ROLES = (*_OF_WORKERS, "source", "target")
UNKNOWN_TOPIC = "TOPIC"
_TOPIC_KEY = "topic"
_CHOOSING = frozenset(
    {"transforms", "output.transforms", "output.topic.field"}
)  # settings that may choose a topic for each record


def _plain_name(transform: str) -> str:
    return transform.rpartition(".")[2].partition("$")[0]


_SAME_TOPIC = {_plain_name(name) for name in BUILT_IN[PluginKind.TRANSFORM]} - ROUTERS


@dataclass(frozen=True)
class Principals:
    """Names of principals: those given by role, or else those in a client's settings."""

    given: Mapping[str, str] = field(default_factory=dict)

    def of(self, role: str, conf: Mapping[str, Any]) -> ClientIdentity:
        """Return the access of a client with these settings (librdkafka's)."""
        cluster = str(conf.get("bootstrap.servers", ""))
        return ClientIdentity(cluster, self.given.get(role) or _principal(role, conf))

    def of_flow(self, source: str, target: str) -> "Principals":
        """Return the principals of a flow's clients: the principal of a cluster is that of all clients there."""
        at_source, at_target = self.given.get(source), self.given.get(target)
        clusters = {"source": at_source, **dict.fromkeys(("target", *_OF_WORKERS), at_target)}
        return Principals({**{role: name for role, name in clusters.items() if name}, **self.given})


def worker_access(config: WorkerConfig, principals: Principals, topics: Sequence[str] = ()) -> WorkerAccess:
    """Return the access of workers with this file; `topics` are examples of topics that they empty."""
    return WorkerAccess(
        principals.of("worker", WorkerSettings(config, "", "").admin_conf()),
        config.group_id,
        config.config_storage_topic,
        config.offset_storage_topic,
        config.status_storage_topic,
        _emptied(config, topics) if config.delete_committed_enabled else (),
    )


def _emptied(config: WorkerConfig, topics: Sequence[str]) -> tuple[str, ...]:
    patterns = [re.compile(pattern) for pattern in config.delete_committed_topics]
    named = tuple(name for name in topics if any(p.fullmatch(name) for p in patterns))
    return named or ((UNKNOWN_TOPIC,) if patterns else ())


def connector_access(
    config: WorkerConfig,
    connector: Mapping[str, str],
    principals: Principals,
    *,
    topics: Sequence[str] = (),
    has_initial_offsets: bool = False,
    is_prefixed: bool = False,
) -> ConnectorAccess:
    """Return the access of a source connector on workers with this config.

    Args:
        connector: Its config, including `name`.
        topics: The topics that it writes to; if empty, those of its config.

    Raises:
        ConfigError: The config is wrong.
    """
    plan = ConnectorPlan(config, connector)
    source, clients = SourceConnectorConfig(connector), plan.clients
    return ConnectorAccess(
        name=source.name,
        producer=principals.of("producer", clients.conf(Client.TASK_PRODUCER)),
        admin=principals.of("admin", clients.conf(Client.TASK_ADMIN)),
        consumer=principals.of("consumer", clients.conf(Client.TASK_READER)),
        offsets_topic=plan.offsets_topic,
        topics=tuple(topics) or topics_of(connector),
        tasks=source.tasks_max,
        lanes=plan.runtime.transaction_lanes,
        is_exactly_once=config.is_exactly_once,
        has_own_offsets=plan.may_have_own_offsets,
        has_initial_offsets=has_initial_offsets,
        dead_letters=source_dead_letters(connector),
        creates_topics=config.topic_creation_enable and bool(source.topic_creation()),
        is_prefixed=is_prefixed,
    )


def sink_access(
    config: WorkerConfig,
    connector: Mapping[str, str],
    principals: Principals,
    *,
    topics: Sequence[str] = (),
    has_initial_offsets: bool = False,
) -> SinkAccess:
    """Return the access of a sink connector on workers with this config.

    `topics`: what it reads; by default, the topics of its config. Raises ConfigError if the config is wrong.
    """
    sink, clients = SinkConnectorConfig(connector), ConnectorPlan(config, connector).clients
    return SinkAccess(
        name=sink.name,
        consumer=principals.of("consumer", clients.sink_conf(sink.name, 0)),
        producer=principals.of("producer", clients.conf(Client.PLAIN_PRODUCER)),
        admin=principals.of("admin", clients.conf(Client.SINK_ADMIN)),
        group=clients.group(sink.name),
        topics=tuple(topics) or tuple(sink.topics) or (UNKNOWN_TOPIC,),
        dead_letters=sink.dead_letters_topic,
        resends=SinkChoice(connector).resend_topic or "",
        has_initial_offsets=has_initial_offsets,
    )


def stream_access(
    config: WorkerConfig,
    connector: Mapping[str, str],
    principals: Principals,
    *,
    topics: Sequence[str] = (),
    has_initial_offsets: bool = False,
    is_prefixed: bool = False,
) -> StreamAccess:
    """Return the access of a stream connector on workers with this config.

    Args:
        topics: The topics that it writes to; if empty, those of its config. They also stand for the topics that it
            reads if the config has only a pattern for these.

    Raises:
        ConfigError: The config is wrong.
    """
    named = topics if "topics" not in connector else ()
    reads = sink_access(config, connector, principals, topics=named, has_initial_offsets=has_initial_offsets)
    output = tuple(topics) or _output_topics(connector, reads.topics)
    has_many_ids = is_dataframe_config(connector)  # one for each input partition
    writes = connector_access(config, connector, principals, topics=output, is_prefixed=is_prefixed or has_many_ids)
    return StreamAccess(reads, replace(writes, dead_letters=""))


def _output_topics(connector: Mapping[str, str], read: Sequence[str]) -> tuple[str, ...]:
    """Return the config's output topics, or a placeholder if a transform may choose others."""
    pattern = connector.get("output.topic")
    if not pattern or not _CHOOSING.isdisjoint(connector):
        return (UNKNOWN_TOPIC,)
    return tuple(dict.fromkeys(pattern.replace("${topic}", topic) for topic in read))


def source_dead_letters(connector: Mapping[str, str]) -> str:
    """Return the dead letter topic of a source; empty if it has none, or fails instead of writing there."""
    dead_letters, source = DeadLetterConfig(connector), SourceConnectorConfig(connector)
    return dead_letters.dead_letters_topic if source.errors_tolerance.lower() == "all" else ""


def is_sink(connector: Mapping[str, str]) -> bool:
    """Say whether a config is a sink's: by its class or, if that is not installed, by keys that only sinks have."""
    kind = type_of_config(connector)
    if kind is ConnectorType.UNKNOWN:
        return any(SinkConnectorConfig.key_of(name) in connector for name in ("topics", "topics_regex"))
    return kind is ConnectorType.SINK


def topics_of(connector: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topic that a config names; a placeholder if it names none, or a transform may choose another."""
    source = SourceConnectorConfig(connector)
    types = [_plain_name(spec.type) for spec in source.transform_specs()]
    topic = connector.get(_TOPIC_KEY)
    return (topic,) if topic and all(name in _SAME_TOPIC for name in types) else (UNKNOWN_TOPIC,)


def _principal(role: str, conf: Mapping[str, Any]) -> str:
    """Return the principal of a client with Kafka's defaults (the broker applies `ssl.principal.mapping.rules`)."""
    protocol = str(conf.get("security.protocol", "plaintext")).lower()
    if protocol.startswith("sasl_"):
        name = conf.get("sasl.username")
        return f"User:{name}" if name else f"User:{role.upper()}"
    if protocol == "ssl" and any(key in conf for key in _CERTIFICATES):
        return f"User:{role.upper()}"
    return "User:ANONYMOUS"


_CERTIFICATES = ("ssl.keystore.location", "ssl.certificate.location", "ssl.certificate.pem")


def parse_principals(texts: Sequence[str], clusters: Sequence[str] = ()) -> Principals:
    """Parse `role=User:name`. In a file of mirrors, the alias of a cluster is a role, too. Raises ConfigError."""
    given, roles = {}, (*ROLES, *clusters)
    for text in texts:
        role, equals, principal = text.partition("=")
        if role not in roles or not equals:
            raise ConfigError(f"--principal {text}: write it as ROLE=User:NAME; roles are {', '.join(roles)}")
        if not principal.partition(":")[2]:
            raise ConfigError(f"--principal {text}: a principal has a type and a name, such as User:{principal}")
        given[role] = principal
    return Principals(given)


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
