"""How far a sink's task is in each of its partitions."""

from collections.abc import Collection
from dataclasses import dataclass, field

from fencepost.record import TopicPartition
from fencepost.task.sink.reader import Offsets


@dataclass
class SinkPositions:
    """The next offset of each partition, as four parties see it."""

    taken: dict[TopicPartition, int] = field(default_factory=dict)  # the next offset for `put`
    safe: dict[TopicPartition, int] = field(default_factory=dict)  # from where records are put again if a flush fails
    stored: dict[TopicPartition, int] = field(default_factory=dict)  # in the group; without partitions that have none
    fresh: dict[TopicPartition, int] = field(default_factory=dict)  # ends where the group begins, not committed yet
    other: set[TopicPartition] = field(default_factory=set)  # where what is `stored` is of another log

    @property
    def uncommitted(self) -> int:
        """Return how many offsets were taken and are not safe yet."""
        return sum(offset - self.safe.get(place, offset) for place, offset in self.taken.items())

    def begin(self, positions: Offsets, fresh: Collection[TopicPartition]) -> None:
        """Add partitions; the group has no offsets of those in `fresh`."""
        self.go_back(positions)
        # Offsets that the group lacks are committed even without records: else the next member would reset again.
        self.stored.update((place, offset) for place, offset in positions.items() if place not in fresh)

    def go_back(self, offsets: Offsets) -> None:
        """Continue at these offsets: what was taken from there counts no more."""
        self.taken.update(offsets)
        self.safe.update(offsets)

    def begin_below(self, firsts: Offsets) -> None:
        """Record that records come from before what was taken: their log was cut, or their topic created again."""
        below = {place: offset for place, offset in firsts.items() if offset < self.taken.get(place, offset)}
        self.taken.update(below)
        below = {place: offset for place, offset in below.items() if offset < self.safe[place]}
        self.safe.update(below)
        self.other.update(below)

    def take(self, covered: Offsets) -> None:
        """Count records below these offsets as taken, unless their partition was revoked meanwhile."""
        self.taken.update((place, offset) for place, offset in covered.items() if place in self.taken)

    def reach(self, ends: Offsets) -> None:
        """Count invisible records as taken: else a topic of transactions would always seem to have one record left."""
        self.take({place: end for place, end in ends.items() if end > self.taken.get(place, end)})

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        self.other.difference_update(partitions)
        for place in partitions:
            for offsets in (self.taken, self.safe, self.stored, self.fresh):
                offsets.pop(place, None)
