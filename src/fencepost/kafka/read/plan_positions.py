"""The positions of a plan's partitions."""

import logging
import time
from collections.abc import Collection, Mapping

from fencepost.kafka.admin.topics import Topic
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.log_gap import NO_EPOCH, LogGap, LogPosition
from fencepost.record import TopicPartition, place_names

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 5.0


class PlanPositions:
    """The positions of partitions that are read: after the returned records, or where they begin."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        """The leader epochs of the records before the positions, if known."""
        self.unreturned: dict[TopicPartition, int] = {}
        """Positions to return with the next records."""
        self.gaps: dict[TopicPartition, LogGap] = {}
        """The partitions that are stopped."""

    def move(self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Store positions, and the leader epochs that are known for exactly these."""
        self.offsets |= offsets
        for place, offset in offsets.items():
            at, epoch = epochs.get(place, (offset, NO_EPOCH))
            self.epochs[place] = epoch if at == offset else NO_EPOCH

    def move_after(self, fetched: Fetched) -> dict[TopicPartition, int]:
        """Move to the end of records that are returned now, and add the positions that were not returned yet.

        Returns the positions to which it moved.
        """
        read = fetched.next_offsets()
        moved = read | fetched.ends
        self.move(moved, fetched.epochs)
        fetched.ends = {place: at for place, at in self.unreturned.items() if place not in read} | fetched.ends
        self.unreturned = {}
        return moved

    def ends_after(self, fetched: Fetched) -> dict[TopicPartition, int]:
        """Return those of the ends that are after the records."""
        next_positions = self.offsets | fetched.next_offsets()
        return {place: end for place, end in fetched.ends.items() if end > next_positions.get(place, end)}

    def remove(self, places: Collection[TopicPartition]) -> list[TopicPartition]:
        """Remove partitions, and return those that had a position."""
        removed = [place for place in places if self.offsets.pop(place, None) is not None]
        for place in removed:
            self.epochs.pop(place, None)
        return removed

    def stop(self, gaps: Mapping[TopicPartition, LogGap]) -> list[TopicPartition]:
        """Replace positions by gaps, and return the partitions that had a position.

        Positions that were not returned yet would be attributed to the present topic.
        """
        for place, gap in gaps.items():
            log.warning("%s", gap)
            self.unreturned.pop(place, None)
        self.gaps |= gaps
        return self.remove(gaps)


class WaitingPartitions:
    """Partitions that are not assigned yet. Their topics are looked up every few seconds."""

    def __init__(self, positions: Mapping[TopicPartition, LogPosition | None]) -> None:
        self._positions = dict(positions)
        self._looked_s = float("-inf")
        self._missed: set[TopicPartition] = set()  # by the last look

    @property
    def topics(self) -> set[str]:
        return {place.topic for place in self._positions}

    def are_due(self) -> bool:
        return bool(self._positions) and time.monotonic() - self._looked_s >= _LOOK_EVERY_S

    def add(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Add partitions, and look for all of them soon."""
        self._positions |= positions
        self._looked_s = float("-inf")

    def existing(self, topics: Mapping[str, Topic]) -> dict[TopicPartition, LogPosition | None]:
        return {
            place: at
            for place, at in self._positions.items()
            if place.topic in topics and place.partition < topics[place.topic].partitions
        }

    def looked(self, begun: Collection[TopicPartition], refused: Collection[str]) -> None:
        """Remove the partitions that have begun, and log which others do not exist."""
        for place in begun:
            del self._positions[place]
        self._looked_s = time.monotonic()
        missed = {place for place in self._positions if place.topic not in refused}
        if missed - self._missed:
            log.warning("partitions do not exist and are looked for again: %s", place_names(missed))
        self._missed = missed
