"""The ends of partitions, for all topics that can be asked."""

import logging
from collections.abc import Callable, Collection

from fencepost.builtin.mirror.warning_log import WarningLog
from fencepost.kafka.admin.client import Admin, existing_ends, existing_starts
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError
from fencepost.record import TopicPartition

LOG = logging.getLogger(__name__)


class Ends:
    """Asks one cluster. A topic that cannot be asked does not affect the others."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._warnings = {what: WarningLog(LOG) for what in ("end", "start")}

    def of(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of partitions for readers of committed records, without missing or denied ones.

        Raises KafkaUnavailableError.
        """
        return self._asked("end", places, lambda some: existing_ends(self._admin, some, read_committed=True))

    def begins(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the beginnings of partitions, without missing or denied ones. Raises KafkaUnavailableError."""
        return self._asked("start", places, lambda some: existing_starts(self._admin, some))

    def _asked(
        self,
        what: str,
        places: Collection[TopicPartition],
        ask: Callable[[Collection[TopicPartition]], dict[TopicPartition, int]],
    ) -> dict[TopicPartition, int]:
        warnings: dict[str, str] = {}
        try:
            found = ask(places)
        except (KafkaAuthorizationError, KafkaRequestError):
            found = {}
            for topic in sorted({place.topic for place in places}):
                try:
                    found |= ask([place for place in places if place.topic == topic])
                except (KafkaAuthorizationError, KafkaRequestError) as error:
                    warnings[f"topic {topic}"] = f"its {what} offsets cannot be read: {error}"
        self._warnings[what].update(warnings)
        return found

    def close(self) -> None:
        self._admin.close()
