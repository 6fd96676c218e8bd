"""Source offsets that are kept as the committed offsets of a consumer group (KIP-656)."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fencepost.record import TopicPartition


class OffsetsInGroup(ABC):
    """Says how source offsets stand in a group of the cluster that the connector's tasks write to.

    The group has no members and reads nothing: its committed offsets are where the source stands, and a task commits
    them in the transaction of the records that they cover. A broker takes offsets of topics that it has, only.
    """

    group: str

    @abstractmethod
    def place(self, partition: Mapping[str, Any]) -> TopicPartition | None:
        """Return under which topic and partition a source partition stands; None: it stays in the offsets topic."""

    @abstractmethod
    def places(self, task_configs: Sequence[Mapping[str, str | None]]) -> Collection[TopicPartition]:
        """Return where the source partitions of these tasks stand."""

    @abstractmethod
    def position(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> tuple[int, str]:
        """Return as which number, 0 or more, a source offset is committed, and with which note.

        Raises FatalError for one that cannot be.
        """

    @abstractmethod
    def source(self, place: TopicPartition, position: int, note: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the source partition and offset that stand there; None for what is not this connector's."""
