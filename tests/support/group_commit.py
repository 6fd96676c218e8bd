"""Commits offsets for a group, on a broker that may have had no group yet."""

from collections.abc import Mapping, Sequence

from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.testing import eventually


def commit_for(group: GroupOffsets, offsets: Sequence[GroupOffset], within_s: float = 60.0) -> None:
    """Set the position of a group without members, once the broker has a coordinator for it."""

    def is_committed() -> bool:
        group.commit(offsets)
        return True

    eventually(is_committed, within_s=within_s)


def put_at(group: GroupOffsets, offsets: Mapping[TopicPartition, int], within_s: float = 60.0) -> None:
    """Do the same without notes."""
    commit_for(group, [GroupOffset(*place, offset) for place, offset in offsets.items()], within_s)
