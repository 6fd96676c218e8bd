"""Where a mirror stands in a partition of its source, as source offsets have it: MirrorMaker's, and a topic's id.

The partition is `{"cluster": alias, "topic": name, "partition": number}`, the offset `{"offset": the last one copied}`.
Beside that stands which topic it is the offset of: `topic_id`. MirrorMaker does not write it, and does not mind it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, overload

from fencepost.api import ConnectError
from fencepost.kafka.log_gap import LogPosition
from fencepost.mirror.offsets import Alterations, check_offsets
from fencepost.record import TopicPartition

_CLUSTER, _TOPIC, _PARTITION, _OFFSET, _TOPIC_ID = "cluster", "topic", "partition", "offset", "topic_id"


def source_partition(alias: str, place: TopicPartition) -> dict[str, Any]:
    """Return how the offsets topic calls a partition of the source."""
    return {_CLUSTER: alias, _TOPIC: place.topic, _PARTITION: place.partition}


def source_offset(last: int, topic_id: str) -> dict[str, Any]:
    """Return that everything up to the offset `last`, and that itself, is copied or has nothing to copy."""
    return {_OFFSET: last, _TOPIC_ID: topic_id} if topic_id else {_OFFSET: last}


def place_of(partition: Mapping[str, Any]) -> TopicPartition:
    """Return which partition of the source that is."""
    return TopicPartition(partition[_TOPIC], partition[_PARTITION])


def place_within(partition: Mapping[str, Any], alias: str) -> TopicPartition | None:
    """Return which partition of the source of that alias it is; None for what says another thing, such as a gap."""
    topic, number = partition.get(_TOPIC), partition.get(_PARTITION)
    if partition.keys() != {_CLUSTER, _TOPIC, _PARTITION} or partition[_CLUSTER] != alias:
        return None
    return TopicPartition(topic, number) if isinstance(topic, str) and isinstance(number, int) else None


def last_of(offset: Mapping[str, Any]) -> int:
    """Return the offset of the last record that is copied."""
    return int(offset[_OFFSET])


def position_of(offset: Mapping[str, Any]) -> LogPosition | None:
    """Return where to go on behind a committed source offset; None where there is none."""
    last = offset.get(_OFFSET)
    return None if last is None else LogPosition(int(last) + 1, str(offset.get(_TOPIC_ID, "")))


def check_altered(offsets: Alterations, alias: str) -> None:
    """Check source offsets that an administrator gives to a connector whose source is `alias`. Raises ConnectError."""
    check_offsets(offsets, texts=(_CLUSTER, _TOPIC), has_partition=True, is_read=True)
    for partition in (dict(items) for items, offset in offsets.items() if offset is not None):
        if partition[_CLUSTER] != alias:
            raise ConnectError(
                f"The source partition {partition} is of a cluster '{partition[_CLUSTER]}'; this connector's source is "
                f"'{alias}' (source.cluster.alias)"
            )
        if odd := sorted(partition.keys() - {_CLUSTER, _TOPIC, _PARTITION}):
            raise ConnectError(f"The source partition {partition} has more keys than it should: {', '.join(odd)}")


class OffsetColumn(Sequence[dict[str, Any]]):
    """The source offsets of records, kept as numbers beside the ids of their topics."""

    __slots__ = ("numbers", "topic_ids")

    def __init__(self, numbers: Sequence[int], topic_ids: Sequence[str]) -> None:
        self.numbers = numbers
        self.topic_ids = topic_ids

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "OffsetColumn": ...
    def __getitem__(self, index: int | slice) -> "dict[str, Any] | OffsetColumn":
        if isinstance(index, slice):
            return OffsetColumn(self.numbers[index], self.topic_ids[index])
        return source_offset(self.numbers[index], self.topic_ids[index])
