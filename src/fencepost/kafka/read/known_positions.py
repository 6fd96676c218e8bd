"""What is known of a group's offsets: the id of the topic, and the leader epoch of the record before the offset.

Both are committed with the offset. From the epoch, brokers know whether the log was cut while the group did not read
(KIP-320). An epoch is used only with the topic's id, because the epochs of a topic that was created again begin at 0
again. A commit has no field for the id, so it is in the offset's metadata. An id is used only with an epoch: mirrors
copy the metadata of groups to other clusters, but not the epochs.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

import orjson

from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.log_gap import NO_EPOCH, LogPosition
from fencepost.record import TopicPartition

_TOPIC_ID = "fencepost.topic_id"
_ID = re.compile(r"[A-Za-z0-9+/_-]{22}")


class KnownPositions:
    """Holds one range of offsets for each partition: it ends at the last position, and has one topic id and epoch."""

    def __init__(self) -> None:
        self._ranges: dict[TopicPartition, tuple[int, LogPosition]] = {}  # the first offset, and the last position

    def read_to(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Record that partitions have been read up to these positions, from the ones recorded before."""
        for place, position in positions.items():
            first, last = self._ranges.get(place, (position.offset, position))
            if (last.topic_id, last.epoch) != (position.topic_id, position.epoch):
                self._ranges[place] = position.offset, position
            elif position.offset >= last.offset:
                self._ranges[place] = first, position

    def move(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Record that reading continues at these positions."""
        for place, position in positions.items():
            if self.at(place, position.offset) != position:
                self._ranges[place] = position.offset, position

    def forget(self, places: Collection[TopicPartition]) -> None:
        for place in places:
            self._ranges.pop(place, None)

    def at(self, place: TopicPartition, offset: int) -> LogPosition | None:
        """Return the position at an offset with its topic id and epoch; None unless both are known."""
        first, last = self._ranges.get(place, (0, LogPosition(NO_EPOCH)))
        is_known = first <= offset <= last.offset and bool(last.topic_id) and last.epoch != NO_EPOCH
        return replace(last, offset=offset) if is_known else None

    def to_commit(self, place: TopicPartition, offset: int) -> GroupOffset:
        """Return an offset as it is committed."""
        known = self.at(place, offset)
        if known is None:
            return GroupOffset(*place, offset)
        return GroupOffset(*place, offset, orjson.dumps({_TOPIC_ID: known.topic_id}).decode(), known.epoch)


def committed_position(committed: GroupOffset) -> LogPosition:
    """Return the position that a committed offset names."""
    try:
        parsed = orjson.loads(committed.metadata)
    except orjson.JSONDecodeError:
        parsed = None
    topic_id = parsed.get(_TOPIC_ID) if isinstance(parsed, dict) else None
    if committed.leader_epoch == NO_EPOCH or not isinstance(topic_id, str) or not _ID.fullmatch(topic_id):
        return LogPosition(committed.offset)
    return LogPosition(committed.offset, topic_id, committed.leader_epoch)
