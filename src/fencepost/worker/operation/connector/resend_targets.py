"""Where a worker resends a sink's dead letters to: only to topics that the sink reads."""

import re
from collections.abc import Iterable

from fencepost.api import RecordError
from fencepost.config import ConfigError
from fencepost.config.check import topic_name
from fencepost.config.connector import SinkConnectorConfig
from fencepost.config.raw import RawConfig, given_values
from fencepost.config.worker import WorkerConfig
from fencepost.task.sink.subscription import ReadTopics

_OFFSETS = "offsets.storage.topic"
_fault = topic_name()


class ResendTargets:
    """The topics that a sink reads by its config, without those that are Kafka's, the worker's, or of dead letters.

    Whoever can write to the dead letter topic can name any topic in a header, and the worker's rights are not for that.
    """

    def __init__(self, read: ReadTopics, own: Iterable[str]) -> None:
        """`own`: topics of the connector's own, to which nothing is resent, whatever the sink reads."""
        self._read = read
        self._own = frozenset(own)
        self._is_readable = True
        self._known: dict[str, bool] = {}

    @classmethod
    def of(cls, worker: WorkerConfig, config: RawConfig, dead_letters: str) -> "ResendTargets":
        """Return those of a sink with this config, whose references are replaced."""
        sink = SinkConnectorConfig(given_values(config))
        read = ReadTopics(tuple(sink.topics), sink.topics_regex or "", worker.closed_topics)
        return cls(read, filter(None, (config.get(_OFFSETS), dead_letters)))

    def has(self, topic: str) -> bool:
        """Say whether dead letters may be resent to a topic: to none by a pattern that is wrong or takes too long."""
        if topic not in self._known:
            self._known[topic] = self._has(topic)
        return self._known[topic]

    def is_closed(self, topic: str) -> bool:
        return topic in self._own or self._read.closed.has(topic)

    def _has(self, topic: str) -> bool:
        if self.is_closed(topic) or _fault(topic) is not None:  # what no topic is called may be made to take long
            return False
        if topic in self._read.names:
            return True
        try:
            return self._is_readable and self._read.has(topic)
        except (ConfigError, RecordError, ValueError, re.error):
            self._is_readable = False  # each topic could take as long
            return False
