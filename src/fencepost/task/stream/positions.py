"""How far a stream's task is in each of its partitions."""

from collections import deque
from collections.abc import Collection

from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition
from fencepost.task.life.reader_status import Offsets


class StreamPositions:
    """The positions of a stream's task in its partitions: sent, handed over, and committed."""

    def __init__(self) -> None:
        self.sent: dict[TopicPartition, int] = {}  # the next offset whose record is in no transaction yet
        self._handed: dict[TopicPartition, int] = {}  # as of the transactions handed over; missing if there are none
        self._committed: dict[TopicPartition, int] = {}  # by this instance
        self._begun: deque[Offsets] = deque()

    @property
    def is_committing(self) -> bool:
        """Say whether a commit has begun whose outcome is not known yet."""
        return bool(self._begun)

    def begin(self, positions: Offsets, fresh: Collection[TopicPartition]) -> None:
        """Add partitions.

        Offsets that the group lacks are due even without records: else its next member would reset.
        """
        self.sent.update(positions)
        self._handed.update((place, offset) for place, offset in positions.items() if place not in fresh)

    def take(self, fetched: Fetched) -> None:
        self._advance(fetched.next_offsets())
        self.reach(fetched.ends)

    def reach(self, ends: Offsets) -> None:
        """Count invisible records, such as transaction markers, as sent."""
        self._advance({place: end for place, end in ends.items() if end > self.sent.get(place, end)})

    def _advance(self, offsets: Offsets) -> None:
        self.sent.update((place, offset) for place, offset in offsets.items() if place in self.sent)

    def due(self) -> dict[TopicPartition, int]:
        return {place: offset for place, offset in self.sent.items() if self._handed.get(place) != offset}

    def hand_over(self, offsets: Offsets) -> None:
        self._begun.append(offsets)
        self._handed.update(offsets)

    def committed(self) -> None:
        """Record that the oldest commit begun has succeeded."""
        self._committed.update(self._begun.popleft())

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        for place in partitions:
            for offsets in (self.sent, self._handed, self._committed):
                offsets.pop(place, None)

    def differ_from(self, stored: Offsets) -> bool:
        return any(stored.get(place) != offset for place, offset in self._committed.items())
