"""The position of a mirror in a source partition, as a source offset: MirrorMaker's, with the topic's id.

The partition is `{"cluster": alias, "topic": name, "partition": number}`, the offset `{"offset": the last one copied}`.
The offset also has the id of its topic, `topic_id`, and the epoch of the leader that appended the last record,
`leader_epoch`, if known. MirrorMaker does not write these, and ignores them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, overload

from fencepost.api import ConnectError
from fencepost.builtin.mirror.offsets import Alterations, check_offsets
from fencepost.kafka.value.log_gap import NO_EPOCH, LogPosition
from fencepost.record import TopicPartition

_CLUSTER, _TOPIC, _PARTITION = "cluster", "topic", "partition"
_OFFSET, _TOPIC_ID, _EPOCH = "offset", "topic_id", "leader_epoch"


def source_partition(alias: str, place: TopicPartition) -> dict[str, Any]:
    """Return the name of a partition of the source in the offsets topic."""
    return {_CLUSTER: alias, _TOPIC: place.topic, _PARTITION: place.partition}


def source_offset(last: int, topic_id: str, epoch: int = NO_EPOCH) -> dict[str, Any]:
    """Return a source offset. It says that everything up to and including `last` was copied or needs no copy."""
    if not topic_id:
        return {_OFFSET: last}
    known = {_OFFSET: last, _TOPIC_ID: topic_id}
    return known if epoch == NO_EPOCH else known | {_EPOCH: epoch}


def place_of(partition: Mapping[str, Any]) -> TopicPartition:
    """Return the partition of the source."""
    return TopicPartition(partition[_TOPIC], partition[_PARTITION])


def place_within(partition: Mapping[str, Any], alias: str) -> TopicPartition | None:
    """Return the partition of the source with that alias; None for other source partitions, such as gaps."""
    topic, number = partition.get(_TOPIC), partition.get(_PARTITION)
    if partition.keys() != {_CLUSTER, _TOPIC, _PARTITION} or partition[_CLUSTER] != alias:
        return None
    return TopicPartition(topic, number) if isinstance(topic, str) and isinstance(number, int) else None


def last_of(offset: Mapping[str, Any]) -> int:
    """Return the offset of the last record that is copied."""
    return int(offset[_OFFSET])


def position_of(offset: Mapping[str, Any]) -> LogPosition | None:
    """Return the position after a committed source offset; None if it has no offset."""
    last = offset.get(_OFFSET)
    if last is None:
        return None
    epoch = offset.get(_EPOCH)
    known = epoch if isinstance(epoch, int) and offset.get(_TOPIC_ID) else NO_EPOCH
    return LogPosition(int(last) + 1, str(offset.get(_TOPIC_ID, "")), known)


def check_altered(offsets: Alterations, alias: str) -> None:
    """Check source offsets that an administrator sets for a connector with source `alias`. Raises ConnectError."""
    check_offsets(offsets, texts=(_CLUSTER, _TOPIC), has_partition=True, is_read=True)
    for partition in (dict(items) for items, offset in offsets.items() if offset is not None):
        if partition[_CLUSTER] != alias:
            raise ConnectError(
                f"The source partition {partition} belongs to cluster '{partition[_CLUSTER]}', but this connector's "
                f"source is '{alias}' (source.cluster.alias)"
            )
        if odd := sorted(partition.keys() - {_CLUSTER, _TOPIC, _PARTITION}):
            raise ConnectError(f"The source partition {partition} has unknown keys: {', '.join(odd)}")


class OffsetColumn(Sequence[dict[str, Any]]):
    """The source offsets of records, kept as columns of numbers, topic ids and leader epochs."""

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
