"""The ends of partitions, for all topics that can be asked."""

import logging
from collections.abc import Collection

from fencepost.kafka.admin.client import Admin, existing_ends
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError
from fencepost.mirror.warning_log import WarningLog
from fencepost.record import TopicPartition

LOG = logging.getLogger(__name__)


class Ends:
    """Asks one cluster. A topic that cannot be asked does not affect the others."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._warnings = WarningLog(LOG)

    def of(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of partitions for readers of committed records, without missing or denied ones.

        Raises KafkaUnavailableError.
        """
        warnings: dict[str, str] = {}
        try:
            found = existing_ends(self._admin, places, read_committed=True)
        except (KafkaAuthorizationError, KafkaRequestError):
            found = {}
            for topic in sorted({place.topic for place in places}):
                try:
                    some = [place for place in places if place.topic == topic]
                    found |= existing_ends(self._admin, some, read_committed=True)
                except (KafkaAuthorizationError, KafkaRequestError) as error:
                    warnings[f"topic {topic}"] = f"its end offsets cannot be read: {error}"
        self._warnings.update(warnings)
        return found

    def close(self) -> None:
        self._admin.close()
