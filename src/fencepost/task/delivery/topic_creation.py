"""Creates the topics of a source connector before its first record goes there (KIP-158)."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.config.connector import SourceConnectorConfig
from fencepost.config.reference import given_values
from fencepost.config.topic_creation import TopicCreationGroup
from fencepost.kafka.admin.client import Admin
from fencepost.record import distinct
from fencepost.task.channel.task_spec import TaskSpec

log = logging.getLogger(__name__)


class TopicCreation:
    """Remembers which topics exist. Without groups it does nothing: the broker may create topics by itself."""

    def __init__(self, groups: Sequence[TopicCreationGroup], admin_conf: Mapping[str, Any]) -> None:
        self._groups = groups
        self._conf = admin_conf
        self._known: set[str] = set()

    def ensure(self, topics: Sequence[str]) -> None:
        """Create the missing topics, each with the first matching group's settings. Raises Kafka's errors."""
        if not self._groups:
            return
        for topic in sorted(distinct(topics) - self._known):
            self._create(topic)
            self._known.add(topic)

    def _create(self, topic: str) -> None:
        group = next((g for g in self._groups if g.matches(topic)), None)
        if group is None:
            return
        is_new = Admin(self._conf).topics.ensure(
            topic, partitions=group.partitions, replication=group.replication_factor, configs=group.configs
        )
        if is_new:
            log.info("created topic %s with the settings of topic.creation group %s", topic, group.name)


def topics_of(spec: TaskSpec) -> TopicCreation:
    """Return the object that creates the connector's topics (KIP-158)."""
    config = SourceConnectorConfig(given_values(spec.connector_config))
    groups = config.topic_creation() if spec.output.topic_creation_enabled else ()
    return TopicCreation(groups, spec.output.admin_conf)
