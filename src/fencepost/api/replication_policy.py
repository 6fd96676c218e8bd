"""The contract of a replication policy: what topics of one cluster are called in another (MirrorMaker 2)."""

from abc import abstractmethod

from fencepost.config import Config

_HEARTBEATS = "heartbeats"
_MIRROR, _INTERNAL, _CHECKPOINTS = "mm2", ".internal", ".checkpoints.internal"


class ReplicationPolicy(Config):
    """Names remote topics and recognizes them. It is built from the properties of its connector.

    All processes of a flow, and consumers that fail over, must arrive at the same names. So each method may depend only
    on those properties and on its arguments.

    >>> from fencepost.api import ReplicationPolicy
    >>> class SuffixPolicy(ReplicationPolicy):
    ...     def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
    ...         return f"{topic}_from_{source_cluster_alias}"
    ...     def topic_source(self, topic: str) -> str | None:
    ...         name, found, alias = topic.rpartition("_from_")
    ...         return alias if found and name else None
    ...     def upstream_topic(self, topic: str) -> str | None:
    ...         name, found, _ = topic.rpartition("_from_")
    ...         return name if found and name else None
    >>> SuffixPolicy({}).original_topic("orders_from_west")
    'orders'
    """

    @abstractmethod
    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        """Return the name that `topic` of that cluster has in the cluster it is mirrored to."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that `topic` was mirrored from; None if it is not a remote topic."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a remote topic in the cluster it was mirrored from; None if it is not a remote topic.

        The result may itself be a remote topic.
        """

    def original_topic(self, topic: str) -> str:
        """Return the name of the topic in the cluster where it originated, even if that is several mirrors away."""
        upstream = self.upstream_topic(topic)
        return topic if upstream in (None, topic) else self.original_topic(str(upstream))

    def heartbeats_topic(self) -> str:
        """Return the name of the heartbeats topic, which is mirrored from cluster to cluster."""
        return _HEARTBEATS

    def offset_syncs_topic(self, cluster_alias: str) -> str:
        """Return the name of the offset-syncs topic; the alias is that of the other cluster of the flow."""
        return f"{_MIRROR}-offset-syncs.{cluster_alias}{_INTERNAL}"

    def checkpoints_topic(self, source_cluster_alias: str) -> str:
        """Return the name of the topic that holds checkpoints of that cluster's groups."""
        return f"{source_cluster_alias}{_CHECKPOINTS}"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Return whether a topic holds heartbeats, either this cluster's or mirrored ones."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Return whether a topic holds checkpoints of any cluster."""
        return topic.endswith(_CHECKPOINTS)

    def is_mirror_topic(self, topic: str) -> bool:
        """Return whether a topic is internal to mirroring; such a topic is never mirrored."""
        return (topic.startswith(_MIRROR) and topic.endswith(_INTERNAL)) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Return whether a topic is internal to Kafka or to mirroring; such a topic is not replicated."""
        return topic.startswith(("__", ".")) or self.is_mirror_topic(topic)
