"""The contract of a replication policy: how topics of one cluster are called in another (MirrorMaker 2)."""

from abc import abstractmethod

from fencepost.config import Config

_HEARTBEATS = "heartbeats"
_MIRROR, _INTERNAL, _CHECKPOINTS = "mm2", ".internal", ".checkpoints.internal"


class ReplicationPolicy(Config):
    """Names remote topics, and recognizes them. Built from the properties of the connector that it serves.

    All processes of a flow, and whoever fails over, have to come to the same names: no method may depend on anything
    but those properties and its arguments.
    """

    @abstractmethod
    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        """Return what `topic` of that cluster is called where it is mirrored to."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that `topic` was mirrored from; None: it is no remote topic."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Return what a remote topic is called in the cluster that it was mirrored from; None: it is no remote topic.

        That may be a remote topic in its turn.
        """

    def original_topic(self, topic: str) -> str:
        """Return what a topic is called where it was not mirrored from anywhere, be it many clusters away."""
        upstream = self.upstream_topic(topic)
        return topic if upstream in (None, topic) else self.original_topic(str(upstream))

    def heartbeats_topic(self) -> str:
        """Return the topic of heartbeats, which is mirrored from cluster to cluster."""
        return _HEARTBEATS

    def offset_syncs_topic(self, cluster_alias: str) -> str:
        """Return the topic of offset syncs; the alias is that of the cluster at the other end."""
        return f"{_MIRROR}-offset-syncs.{cluster_alias}{_INTERNAL}"

    def checkpoints_topic(self, source_cluster_alias: str) -> str:
        """Return the topic of checkpoints of that cluster's groups."""
        return f"{source_cluster_alias}{_CHECKPOINTS}"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Say whether a topic has heartbeats, of this cluster or mirrored."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Say whether a topic has checkpoints, of whichever cluster."""
        return topic.endswith(_CHECKPOINTS)

    def is_mirror_topic(self, topic: str) -> bool:
        """Say whether a topic belongs to the machinery of mirroring, which is never mirrored."""
        return (topic.startswith(_MIRROR) and topic.endswith(_INTERNAL)) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Say whether a topic is Kafka's own, or of the machinery of mirroring: it is not replicated."""
        return topic.startswith(("__", ".")) or self.is_mirror_topic(topic)
