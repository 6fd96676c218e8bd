"""The topics that a group's member is subscribed to."""

import logging
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException

from fencepost.kafka.admin.topics import INTERNAL_TOPICS
from fencepost.kafka.read.assignment import AssignedPartitions
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_REFRESH, _LOOK_EVERY_MS = "topic.metadata.refresh.interval.ms", 30_000


class SubscribedTopics:
    """Topics with given names, or those of the cluster whose names match, which are looked up periodically."""

    def __init__(self, assignment: AssignedPartitions, topics: Sequence[str] | Callable[[str], object]) -> None:
        """Subscribe the assignment's client to names. If `topics` is a predicate, the first `maybe_look` does that."""
        self._assignment = assignment
        self._client = assignment.client
        self._look_every_s = float(self._client.conf.get(_REFRESH, _LOOK_EVERY_MS)) / 1000
        self._looked_s = float("-inf")
        self._is_meant = None if isinstance(topics, Sequence) else topics
        self.names: list[str] = []
        if isinstance(topics, Sequence):
            self._subscribe(list(topics))

    def maybe_look(self) -> None:
        """Subscribe to the topics that exist now. If the cluster does not answer, this is tried again."""
        if self._is_meant is None or time.monotonic() - self._looked_s < self._look_every_s:
            return
        self._looked_s = time.monotonic()
        try:
            found = self._client.topics()
        except KafkaException as error:
            log.info("the topics of the cluster are not known: %s", error)
            return
        wanted = sorted(name for name in found if self._is_meant(name) and name not in INTERNAL_TOPICS)
        if wanted != self.names and wanted:
            self._subscribe(wanted)

    def _subscribe(self, names: list[str]) -> None:
        self.names, to = names, self._assignment
        self._client.consumer.subscribe(names, on_assign=to.take, on_revoke=to.revoke, on_lost=to.lose)

    def partitions(self) -> set[TopicPartition]:
        """Return all partitions of the topics, as the cluster knows them now. Raises KafkaException."""
        found = self._client.topics()
        topics = {name: found[name].partitions for name in self.names if name in found}
        return {TopicPartition(name, number) for name, numbers in topics.items() for number in numbers}
