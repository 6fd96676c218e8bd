"""Batches as they were sent, for who makes columns of many at once."""

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.kafka.codec.committed import FetchedBatch
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition


class UnreadBatch(NamedTuple):
    """A batch at which nobody has looked; its records below the offset `wanted` were not asked for."""

    sent: FetchedBatch
    wanted: int

    @property
    def count(self) -> int:  # type: ignore[override]
        return self.sent.head.records


class UnreadFetched(Fetched):
    """Batches in order, each with the partition that it is of."""

    def __init__(self, entries: Sequence[tuple[TopicPartition, UnreadBatch]]) -> None:
        super().__init__()
        self.entries = entries


class Unread:
    """Has a reader hand batches over as they were sent."""

    def made(self, batches: Sequence[FetchedBatch], wanted: int) -> Sequence[UnreadBatch]:
        return [UnreadBatch(sent, wanted) for sent in batches]

    def fetched(self, entries: Sequence[tuple[TopicPartition, UnreadBatch]]) -> Fetched:
        return UnreadFetched(entries)
