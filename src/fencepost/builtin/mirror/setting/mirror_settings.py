"""The settings that the connectors of a mirror share.

Names, defaults and meaning are those of Kafka's MirrorMaker 4.3. A connector's class takes the groups that it needs.

The built-in replication policies, under MirrorMaker's names, and the lookup of a flow's policy.

A custom policy is a `ReplicationPolicy` that a package offers as entry point `fencepost.replication_policies`, or that
is in a directory of `plugin.path`; `replication.policy.class` contains its Python name.
"""

from collections.abc import Mapping
from typing import ClassVar

from fencepost.api import HIGH, LOW, Config, ConfigError, ReplicationPolicy, Type, at_least, non_empty, one_of, setting
from fencepost.builtin.mirror.setting.clients import CLIENT_PREFIXES, FlowEnd, client_faults, client_properties
from fencepost.config.check import Check, at_least_or_minus_one
from fencepost.config.connector import ConnectorConfig
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaAuthorizationError, TooFewBrokersError
from fencepost.kafka.setting.client_settings import admin_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import Conf
from fencepost.plugin import PluginKind, find

_DOT, _MIRROR, _INTERNAL, _CHECKPOINTS = ".", "mm2", "internal", "checkpoints"


class SeparatorSettings(Config):
    """The separator between the parts of a name."""

    policy_separator: str = setting(
        "replication.policy.separator", default=_DOT, check=non_empty(), importance=LOW,
        doc="The separator between the alias of the source cluster and the name of the topic.",
    )  # fmt: skip
    internal_separator_enabled: bool = setting(
        "replication.policy.internal.topic.separator.enabled", default=True, importance=LOW,
        doc="Whether `replication.policy.separator` also applies to the topics of checkpoints and of offset syncs; "
        "false: they use a dot, as in older versions of MirrorMaker.",
    )  # fmt: skip


class AliasSettings(Config):
    """Where records come from."""

    source_cluster_alias: str = setting(
        "source.cluster.alias", check=non_empty(), importance=HIGH,
        doc="The name of the source cluster, used in the names of remote topics, in offsets and in metrics.",
    )  # fmt: skip


class DefaultReplicationPolicy(SeparatorSettings, ReplicationPolicy):
    """Puts the alias of the source cluster before a topic's name: `us-west.orders`."""

    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        return f"{source_cluster_alias}{self.policy_separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        source, _, rest = topic.partition(self.policy_separator)
        return source if rest.replace(self.policy_separator, "") else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.policy_separator) :]

    def offset_syncs_topic(self, cluster_alias: str) -> str:
        return self._joined(f"{_MIRROR}-offset-syncs", cluster_alias, _INTERNAL)

    def checkpoints_topic(self, source_cluster_alias: str) -> str:
        return self._joined(source_cluster_alias, _CHECKPOINTS, _INTERNAL)

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self._joined("", _CHECKPOINTS, _INTERNAL))

    def is_mirror_topic(self, topic: str) -> bool:
        is_of_mirror = topic.startswith(_MIRROR) and topic.endswith(self._joined("", _INTERNAL))
        return is_of_mirror or self.is_checkpoints_topic(topic)

    def _joined(self, *parts: str) -> str:
        return (self.policy_separator if self.internal_separator_enabled else _DOT).join(parts)


class IdentityReplicationPolicy(AliasSettings, DefaultReplicationPolicy):
    """Keeps the names of topics, except those that end in `heartbeats`.

    As a name does not show where a topic comes from, every topic counts as one of the source cluster.
    """

    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        return super().format_remote_topic(source_cluster_alias, topic) if self._beats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        return super().topic_source(topic) if self._beats(topic) else self.source_cluster_alias

    def upstream_topic(self, topic: str) -> str | None:
        return super().upstream_topic(topic) if self._beats(topic) else topic

    def _beats(self, topic: str) -> bool:
        return topic.endswith(self.heartbeats_topic())


def policy_of(key: str, name: str, properties: Mapping[str, object]) -> ReplicationPolicy:
    """Return the policy of that class, built from a connector's properties.

    Raises:
        ConfigError: The class is not found (the error names `key`), or it refuses the properties.
    """
    try:
        found: type[ReplicationPolicy] = find(PluginKind.REPLICATION_POLICY, name)
    except ConfigError as error:
        raise ConfigError(f"Invalid value {name} for configuration {key}: {error}") from None
    return found(properties)


_BYTES = {
    ConnectorConfig.key_of(field): "org.apache.kafka.connect.converters.ByteArrayConverter"
    for field in ("key_converter", "value_converter", "header_converter")
}
_FORWARDING_ADMIN = "org.apache.kafka.clients.admin.ForwardingAdmin"
_REPLICAS = at_least_or_minus_one(1, "Value must be 1 or more, or -1 for the broker's default")


def _only(name: str, instead: str) -> Check:
    return Check(lambda value: None if value == name else f"custom classes do not run here; {instead}", name)


def replicas(key: str, *, of: str) -> int:
    """Declare the number of replicas of an internal topic that is created."""
    declared: int = setting(
        key, default=3, type=Type.SHORT, check=_REPLICAS, importance=LOW,
        doc=f"Replicas of the topic of {of} if it is created; -1: the broker's default.",
    )  # fmt: skip
    return declared


class SourceClusterSettings(Config):
    """The address of the source."""

    source_servers: list[str] = setting(
        "source.cluster.bootstrap.servers", check=non_empty(), importance=HIGH,
        doc="Host and port of some brokers of the source, separated by commas.",
    )  # fmt: skip


class TargetClusterSettings(Config):
    """The address of the target."""

    target_servers: list[str] = setting(
        "target.cluster.bootstrap.servers", check=non_empty(), importance=HIGH,
        doc="Host and port of some brokers of the target, separated by commas.",
    )  # fmt: skip


class MirrorSettings(AliasSettings, SeparatorSettings):
    """The settings of every connector of a mirror. Keys, values and headers of its records are bytes."""

    client_prefixes: ClassVar[tuple[str, ...]] = CLIENT_PREFIXES
    converters: ClassVar[Mapping[str, str]] = _BYTES

    target_cluster_alias: str = setting(
        "target.cluster.alias", default="target", check=non_empty(), importance=HIGH,
        doc="The name of the target cluster.",
    )  # fmt: skip
    is_enabled: bool = setting(
        "enabled", default=True, importance=LOW, doc="Whether anything is mirrored; if not, the connector has no task."
    )
    replication_policy_class: str = setting(
        "replication.policy.class", default="org.apache.kafka.connect.mirror.DefaultReplicationPolicy", type=Type.CLASS,
        importance=LOW,
        doc="How remote topics are named: `DefaultReplicationPolicy` puts the source's alias before the name, "
        "`IdentityReplicationPolicy` keeps the name; or a `ReplicationPolicy` of your own, from `plugin.path`.",
    )  # fmt: skip
    admin_timeout_ms: int = setting(
        "admin.timeout.ms", default=60_000, type=Type.LONG, check=at_least(1), importance=LOW,
        doc="How long a cluster may take to answer requests other than for records.",
    )  # fmt: skip
    forwarding_admin_class: str = setting(
        "forwarding.admin.class", default=_FORWARDING_ADMIN, type=Type.CLASS, importance=LOW,
        check=_only(_FORWARDING_ADMIN, "topics are created through the cluster itself"),
        doc="The class of admin clients; custom classes are not supported.",
    )  # fmt: skip

    def check_together(self) -> list[str]:
        faults = [
            f"Invalid value for configuration {key}: {reason}"
            for cluster in FlowEnd
            for key, reason in client_faults(self.originals, cluster).items()
        ]
        if self.source_cluster_alias == self.target_cluster_alias:
            faults.append(
                f"Invalid value {self.target_cluster_alias} for configuration {self.key_of('target_cluster_alias')}: "
                "it is the source's alias, too; topics would be mirrored in circles. Give each cluster its own alias"
            )
        try:
            self.policy()
        except ConfigError as error:
            faults.extend(error.messages)
        return faults + super().check_together()

    @property
    def flow(self) -> str:
        """Return the flow's name in logs and metrics."""
        return f"{self.source_cluster_alias}->{self.target_cluster_alias}"

    def policy(self) -> ReplicationPolicy:
        """Return the replication policy. Raises ConfigError."""
        return policy_of(self.key_of("replication_policy_class"), self.replication_policy_class, self.originals)

    def client(self, cluster: FlowEnd, kind: ClientKind, role: str) -> dict[str, object]:
        """Return the settings of a client, under Java's names; `role` is part of its name in the brokers' logs."""
        client_id = f"{self.flow}|{self.originals.get('name', '')}|{role}"
        return client_properties(self.originals, cluster, kind, client_id=client_id)

    def admin(self, cluster: FlowEnd, role: str) -> Admin:
        """Return a client for anything but records of a cluster. Creating it never blocks; close it."""
        return Admin(self.admin_conf(cluster, role), timeout_s=self.admin_timeout_s)

    def admin_conf(self, cluster: FlowEnd, role: str) -> Conf:
        """Return the settings of such a client, under librdkafka's names."""
        return admin_conf(self.client(cluster, ClientKind.ADMIN, role)).conf

    @property
    def admin_timeout_s(self) -> float:
        return self.admin_timeout_ms / 1000

    def ensure_internal_topic(self, admin: Admin, topic: str, field: str) -> None:
        """Create the topic unless it exists, with as many replicas as the setting `field` says.

        Raises:
            ConfigError: The cluster has too few brokers for so many replicas.
            KafkaAuthorizationError: The principal may not create it.
            KafkaUnavailableError: The cluster does not answer.
            KafkaRequestError: The cluster refuses the topic for another reason.
        """
        replication: int = getattr(self, field)
        try:
            admin.topics.ensure(topic, partitions=1, replication=replication, configs={"cleanup.policy": "compact"})
        except TooFewBrokersError as error:
            raise ConfigError(
                f"Invalid value {replication} for configuration {self.key_of(field)}: the cluster has too few brokers "
                f"for that many replicas of topic {topic}; set a lower number, or -1 for the cluster's default. {error}"
            ) from error
        except KafkaAuthorizationError as error:
            raise KafkaAuthorizationError(
                f"{error} Topic {topic} does not exist: create it with one partition and cleanup.policy=compact, or "
                "allow the principal to create it."
            ) from error


class OffsetSyncSettings(MirrorSettings):
    """Where offset syncs are written."""

    offset_syncs_location: str = setting(
        "offset-syncs.topic.location", default="source", check=one_of("source", "target", ignore_case=False),
        importance=LOW, doc="The cluster that has the topic of offset syncs.",
    )  # fmt: skip
    emit_offset_syncs: bool = setting(
        "emit.offset-syncs.enabled", default=True, importance=LOW,
        doc="Whether offset syncs are written. Without them positions of groups cannot be translated.",
    )  # fmt: skip

    def offset_syncs_cluster(self) -> FlowEnd:
        """Return the cluster that has the topic of offset syncs."""
        return FlowEnd(self.offset_syncs_location)

    def offset_syncs_topic(self) -> str:
        """Return the topic of offset syncs. Its name contains the alias of the other cluster."""
        is_at_source = self.offset_syncs_cluster() is FlowEnd.SOURCE
        return self.policy().offset_syncs_topic(
            self.target_cluster_alias if is_at_source else self.source_cluster_alias
        )


class PollSettings(Config):
    """How long to wait for records of the source."""

    poll_timeout_ms: int = setting(
        "consumer.poll.timeout.ms", default=1_000, type=Type.LONG, check=at_least(0), importance=LOW,
        doc="How long one poll waits for new records of the source.",
    )  # fmt: skip


class ReplicationSettings(PollSettings, OffsetSyncSettings):
    """The settings of the connectors that mirror records, of either type."""

    refresh_topics_enabled: bool = setting(
        "refresh.topics.enabled", default=True, importance=LOW, doc="Whether to look for new topics and partitions."
    )
    refresh_topics_interval_s: int = setting(
        "refresh.topics.interval.seconds", default=600, type=Type.LONG, check=at_least(1), importance=LOW,
        doc="How often to look for new topics and partitions.",
    )  # fmt: skip
    sync_topic_configs_enabled: bool = setting(
        "sync.topic.configs.enabled", default=True, importance=LOW,
        doc="Whether remote topics get the configs of their source topics.",
    )  # fmt: skip
    sync_topic_configs_interval_s: int = setting(
        "sync.topic.configs.interval.seconds", default=600, type=Type.LONG, check=at_least(1), importance=LOW,
        doc="How often configs are compared.",
    )  # fmt: skip
    sync_topic_acls_enabled: bool = setting(
        "sync.topic.acls.enabled", default=True, importance=LOW,
        doc="Whether principals that may read a topic may also read its remote topic.",
    )  # fmt: skip
    sync_topic_acls_interval_s: int = setting(
        "sync.topic.acls.interval.seconds", default=600, type=Type.LONG, check=at_least(1), importance=LOW,
        doc="How often these ACLs are compared.",
    )  # fmt: skip
    replication_factor: int = setting(
        "replication.factor", default=2, type=Type.INT, check=_REPLICAS, importance=LOW,
        doc="Replicas of remote topics that are created; -1: the broker's default.",
    )  # fmt: skip
    offset_syncs_replication_factor: int = replicas("offset-syncs.topic.replication.factor", of="offset syncs")
    offset_lag_max: int = setting(
        "offset.lag.max", default=100, type=Type.LONG, check=at_least(0), importance=LOW,
        doc="How many records the last offset sync of a partition may be behind before another one is written.",
    )  # fmt: skip
    heartbeats_replication_enabled: bool = setting(
        "heartbeats.replication.enabled", default=True, importance=LOW,
        doc="Whether topics of heartbeats are mirrored even if `topics` does not include them.",
    )  # fmt: skip
