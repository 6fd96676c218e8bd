"""The positions of a mirror of the sink type: in a group of the target, in the transactions of its records (KIP-656).

The group has no members. A broker only accepts offsets of its own topics, so the position in a source partition is
committed for its remote topic. The metadata of the offset names the source topic, with its id and the epoch of the
leader that appended the last record.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from fencepost.builtin.mirror.source.planning import Selection, from_text
from fencepost.builtin.mirror.source.position import (
    last_of,
    place_of,
    place_within,
    position_of,
    source_offset,
    source_partition,
)
from fencepost.hook.mirror import OffsetsInGroup
from fencepost.kafka.value.log_gap import NO_EPOCH, LogPosition
from fencepost.record import TopicPartition

_TOPIC, _ID, _EPOCH = "topic", "id", "epoch"


class _Metadata(NamedTuple):
    topic: str
    topic_id: str
    epoch: int


def _to_metadata(topic: str | None, topic_id: str, epoch: int = NO_EPOCH) -> str:
    known = {} if epoch == NO_EPOCH else {_EPOCH: epoch}
    return orjson.dumps({_TOPIC: topic, _ID: topic_id, **known}).decode()


def _read(metadata: str) -> _Metadata | None:
    try:
        parsed = orjson.loads(metadata)
        return _Metadata(str(parsed[_TOPIC]), str(parsed[_ID]), int(parsed.get(_EPOCH, NO_EPOCH)))
    except (ValueError, TypeError, KeyError):
        return None


def position_from_metadata(place: TopicPartition, offset: int, metadata: str) -> LogPosition:
    """Return the position in a source partition from an offset and its metadata; metadata of others is ignored."""
    parsed = _read(metadata)
    if parsed is None or parsed.topic != place.topic:
        return LogPosition(offset)
    return LogPosition(offset, parsed.topic_id, parsed.epoch if parsed.topic_id else NO_EPOCH)


class MirrorOffsets(OffsetsInGroup):
    """The source offsets of one flow, as they are kept in its group."""

    def __init__(self, group: str, selection: Selection, assigned_key: str) -> None:
        """`assigned_key` is the property with the partitions of a task."""
        self.group = group
        self._selection = selection
        self._assigned_key = assigned_key

    def place(self, partition: Mapping[str, Any]) -> TopicPartition | None:
        """Return the place of a source partition in the group; None for a connector's other source partitions."""
        upstream = place_within(partition, self._selection.source_alias)
        return None if upstream is None else self.remote(upstream)

    def places(self, task_configs: Sequence[Mapping[str, str | None]]) -> Collection[TopicPartition]:
        assigned = [(each.get(self._assigned_key) or "").split(",") for each in task_configs]
        return [self.remote(place) for names in assigned for place in from_text(filter(None, names))]

    def position(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> tuple[int, str]:
        position = position_of(offset) or LogPosition(0)
        return last_of(offset) + 1, _to_metadata(place_of(partition).topic, position.topic_id, position.epoch)

    def source(
        self, place: TopicPartition, position: int, metadata: str
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the source offset of a committed offset. Without metadata it was set by Kafka's tools."""
        parsed = _read(metadata or _to_metadata(self._selection.policy.upstream_topic(place.topic), ""))
        if parsed is None:
            return None
        upstream = TopicPartition(parsed.topic, place.partition)
        if self.remote(upstream) != place:
            return None
        offset = source_offset(position - 1, parsed.topic_id, parsed.epoch)
        return source_partition(self._selection.source_alias, upstream), offset

    def remote(self, place: TopicPartition) -> TopicPartition:
        """Return the partition of the target that a partition of the source is mirrored to."""
        return TopicPartition(self._selection.remote_topic(place.topic), place.partition)
