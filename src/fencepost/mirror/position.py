"""Where a mirror stands in a partition of its source, as source offsets have it: MirrorMaker's, and a topic's id.

The partition is `{"cluster": alias, "topic": name, "partition": number}`, the offset `{"offset": the last one copied}`.
Beside that stands which topic it is the offset of, `topic_id`, and the epoch of the leader that took the last one,
`leader_epoch`, where that is known. MirrorMaker does not write them, and does not mind them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, overload

from fencepost.api import ConnectError
from fencepost.kafka.value.log_gap import NO_EPOCH, LogPosition
from fencepost.mirror.offsets import Alterations, check_offsets
from fencepost.record import TopicPartition

_CLUSTER, _TOPIC, _PARTITION = "cluster", "topic", "partition"
_OFFSET, _TOPIC_ID, _EPOCH = "offset", "topic_id", "leader_epoch"


def source_partition(alias: str, place: TopicPartition) -> dict[str, Any]:
    """Return how the offsets topic calls a partition of the source."""
    return {_CLUSTER: alias, _TOPIC: place.topic, _PARTITION: place.partition}


def source_offset(last: int, topic_id: str, epoch: int = NO_EPOCH) -> dict[str, Any]:
    """Return that everything up to the offset `last`, and that itself, is copied or has nothing to copy."""
    if not topic_id:
        return {_OFFSET: last}
    known = {_OFFSET: last, _TOPIC_ID: topic_id}
    return known if epoch == NO_EPOCH else known | {_EPOCH: epoch}


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
    if last is None:
        return None
    epoch = offset.get(_EPOCH)
    known = epoch if isinstance(epoch, int) and offset.get(_TOPIC_ID) else NO_EPOCH
    return LogPosition(int(last) + 1, str(offset.get(_TOPIC_ID, "")), known)


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
    """The source offsets of records, kept as numbers beside the ids of their topics, and the epochs of leaders."""

    __slots__ = ("epochs", "numbers", "topic_ids")

    def __init__(self, numbers: Sequence[int], topic_ids: Sequence[str], epochs: Sequence[int]) -> None:
        self.numbers = numbers
        self.topic_ids = topic_ids
        self.epochs = epochs

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "OffsetColumn": ...
    def __getitem__(self, index: int | slice) -> "dict[str, Any] | OffsetColumn":
        if isinstance(index, slice):
            return OffsetColumn(self.numbers[index], self.topic_ids[index], self.epochs[index])
        return source_offset(self.numbers[index], self.topic_ids[index], self.epochs[index])
