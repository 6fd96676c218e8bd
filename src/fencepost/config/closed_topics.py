"""The topics that belong to workers: no connector reads them, writes to them or names them (docs/decisions/0109).

They have the configs, the session key, the offsets and the states of all connectors, or are Kafka's own. Whoever reads
or writes them is an administrator of the cluster, whatever connector he may edit.
"""

from dataclasses import dataclass

OF_KAFKA = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
"""Kafka's own topics. Others that begin with `__` are users' (Debezium's heartbeats, an `__audit`)."""
DECISIONS = "fencepost-writes"
"""The topic that says what Spark has written: who writes there decides what a query skips."""


@dataclass(frozen=True)
class ClosedTopics:
    """`names`: the workers' topics for configs, offsets and statuses; none for a cluster that is not the workers'."""

    names: tuple[str, ...] = ()

    def has(self, topic: str) -> bool:
        return topic in self.names or (bool(self.names) and topic in (*OF_KAFKA, DECISIONS))


ALL_OPEN = ClosedTopics()
CLOSED = "this topic is the workers' or Kafka's own, and connectors may not read or write it"
"""Why a topic is refused."""


def closed_fault(key: str, topic: str) -> str:
    """Return the fault of a setting that names a closed topic."""
    return f"Invalid value {topic} for configuration {key}: {CLOSED}; name another topic"
