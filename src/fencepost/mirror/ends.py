"""Where partitions end, of as many as can be asked."""

import logging
from collections.abc import Collection

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError
from fencepost.mirror.troubles import Troubles
from fencepost.record import TopicPartition

LOG = logging.getLogger(__name__)


class Ends:
    """Asks one cluster. One topic that cannot be asked holds up no other."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._troubles = Troubles(LOG)

    def of(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where partitions end for readers of committed records; without those that are not there, or denied.

        Raises KafkaUnavailableError.
        """
        troubles: dict[str, str] = {}
        try:
            found = self._asked(places)
        except (KafkaAuthorizationError, KafkaRequestError):
            found = {}
            for topic in sorted({place.topic for place in places}):
                try:
                    found |= self._asked([place for place in places if place.topic == topic])
                except (KafkaAuthorizationError, KafkaRequestError) as error:
                    troubles[f"topic {topic}"] = f"where it ends cannot be asked: {error}"
        self._troubles.are(troubles)
        return found

    def close(self) -> None:
        self._admin.close()

    def _asked(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        topics = self._admin.topics({place.topic for place in places})
        there = [p for p in places if p.topic in topics and p.partition < topics[p.topic].partitions]
        found = self._admin.end_offsets(there, read_committed=True)
        return {TopicPartition(*place): end for place, end in found.items()}
