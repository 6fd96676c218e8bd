"""The topics that belong to workers: no connector reads them, writes to them or names them (docs/decisions/0109).

They have the configs, the session key, the offsets and the states of all connectors, or are Kafka's own. Whoever reads
or writes them is an administrator of the cluster, whatever connector he may edit.
"""

from dataclasses import dataclass

_OF_KAFKA = "__"
_OF_CONNECTORS = "__debezium-heartbeat"
"""How topics begin that are named like Kafka's and are ordinary ones: Debezium's heartbeats, by their default name."""


@dataclass(frozen=True)
class ClosedTopics:
    """`names`: the workers' topics for configs, offsets and statuses; none for a cluster that is not the workers'."""

    names: tuple[str, ...] = ()

    def has(self, topic: str) -> bool:
        if not self.names:
            return False
        return topic in self.names or (topic.startswith(_OF_KAFKA) and not topic.startswith(_OF_CONNECTORS))


ALL_OPEN = ClosedTopics()
CLOSED = "this topic is the workers' or Kafka's own, and connectors may not read or write it"
"""Why a topic is refused."""
