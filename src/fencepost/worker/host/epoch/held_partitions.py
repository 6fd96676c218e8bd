"""The partitions that a member of a group has while it works on epochs."""

from collections.abc import Callable, Collection, Mapping

from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.record import TopicPartition
from fencepost.task.sink.epoch_plan import EpochOffset, EpochOffsets


class HeldPartitions:
    """The member's assigned partitions, and the group's offsets in them."""

    def __init__(
        self, committed: Callable[[], Mapping[TopicPartition, GroupOffset]], let_go: Callable[[], None]
    ) -> None:
        """`committed` returns the group's offsets. `let_go` is called before partitions are granted to others."""
        self.offsets: dict[TopicPartition, EpochOffset] = {}
        self.decided: dict[TopicPartition, EpochOffset] = {}
        """The group's offsets in partitions of other topics whose epochs only remain to be published."""
        self.fresh: set[TopicPartition] = set()
        """Partitions whose starting offset the group has not committed: only this member knows it."""
        self.changes = 0
        self.begun_with = -1  # the count of `changes` with which the work on these partitions began
        self._committed = committed
        self._let_go = let_go

    def assigned(
        self, positions: Mapping[TopicPartition, int], fresh: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Add partitions, with the epochs that were begun in them."""
        committed = self._committed()
        self.offsets.update({p: EpochOffset.of(committed.get(p, GroupOffset(*p, at))) for p, at in positions.items()})
        self.fresh |= set(fresh)
        self.changes += 1
        return {}

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Release partitions: once this returns, nothing of them is written any more."""
        self._let_go()
        self.lost(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Remove partitions that belong to other members."""
        self.changes += 1
        self.fresh -= set(partitions)
        for place in partitions:
            self.offsets.pop(place, None)

    def committed(self, offsets: EpochOffsets) -> None:
        """Record the group's new offsets."""
        for place, offset in offsets.items():
            if self.decided.pop(place, None) is None:
                self.offsets[place] = offset
                self.fresh.discard(place)

    def clear(self) -> None:
        """Hold nothing any more."""
        self.offsets.clear()
        self.decided.clear()
        self.fresh.clear()
        self.changes += 1

    @property
    def has_begun(self) -> bool:
        """Say whether the member has all partitions, and the work on them has begun."""
        return self.begun_with == self.changes

    @property
    def all(self) -> dict[TopicPartition, EpochOffset]:
        """Return the offsets that this member may commit: those of its partitions, and of decided epochs."""
        return {**self.decided, **self.offsets}
