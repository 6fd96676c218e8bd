"""What a program that encodes batches in advance must know of the topics that they go to."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import Cluster, known_id
from fencepost.kafka.wire.errors import AnswerError, LostError, UnsupportedError, request_failure

_ANSWER_S = 60.0


class Target(NamedTuple):
    """A topic: its id, its number of partitions, and the largest batch that it takes; None if that is not known."""

    id: str
    partitions: int
    most_bytes: int | None


class Targets:
    """Looks topics up, over connections that stay open. For one thread at a time."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """`conf` uses librdkafka's names. Nothing is sent yet."""
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._cluster = Cluster(Access.of(conf), metadata_age_s=0.0)

    def get(self, topic: str, *, with_limit: bool = True) -> Target:
        """Ask for a topic now, and for its limit, which is another request. Brokers may create a missing topic.

        Raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
        """
        deadline_s = time.monotonic() + _ANSWER_S
        try:
            partitions = len(self._cluster.leaders(topic, deadline_s))
            most_bytes = self._cluster.taking(topic, deadline_s).most_bytes if with_limit else None
            return Target(known_id(self._cluster, topic), partitions, most_bytes)
        except (AnswerError, LostError, UnsupportedError) as error:
            raise request_failure(error, f"looking up topic {topic}", self._bootstrap) from error

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._cluster.close()
