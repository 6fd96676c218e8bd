"""The built-in replication policies, under MirrorMaker's names, and the lookup of a flow's policy.

A custom policy is a `ReplicationPolicy` that a package offers as entry point `fencepost.replication_policies`, or that
is in a directory of `plugin.path`; `replication.policy.class` contains its Python name.
"""

from collections.abc import Mapping

from fencepost.api import Config, ConfigError, ReplicationPolicy, non_empty, setting
from fencepost.config import HIGH, LOW
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
