"""The contract for source offsets that are stored as the committed offsets of a consumer group (KIP-656)."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fencepost.record import TopicPartition


class OffsetsInGroup(ABC):
    """Maps source offsets to committed offsets of a group in the cluster that the connector's tasks write to.

    The group has no members and reads nothing. Its committed offsets are the source's position, and a task commits
    them in the transaction of the records that they cover. A broker accepts offsets only for topics that it has.

    >>> from fencepost.api import OffsetsInGroup, TopicPartition
    >>> class CopyPositions(OffsetsInGroup):
    ...     group = "copy-positions"
    ...     def place(self, partition):
    ...         return TopicPartition(partition["topic"], partition["partition"])
    ...     def places(self, task_configs):
    ...         return [TopicPartition(own["topic"], 0) for own in task_configs]
    ...     def position(self, partition, offset):
    ...         return offset["offset"], ""
    ...     def source(self, place, position, metadata):
    ...         return {"topic": place.topic, "partition": place.partition}, {"offset": position}
    >>> CopyPositions().source(TopicPartition("orders", 0), 17, "")
    ({'topic': 'orders', 'partition': 0}, {'offset': 17})
    """

    group: str

    @abstractmethod
    def place(self, partition: Mapping[str, Any]) -> TopicPartition | None:
        """Return the topic partition that stores a source partition's offset; None: the offsets topic stores it."""

    @abstractmethod
    def places(self, task_configs: Sequence[Mapping[str, str | None]]) -> Collection[TopicPartition]:
        """Return the topic partitions that store the offsets of these tasks' source partitions."""

    @abstractmethod
    def position(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> tuple[int, str]:
        """Return the number, 0 or more, and the metadata text that are committed for a source offset.

        Raises FatalError if the offset cannot be expressed that way.
        """

    @abstractmethod
    def source(
        self, place: TopicPartition, position: int, metadata: str
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the source partition and offset of a committed offset; None if it is not this connector's."""
