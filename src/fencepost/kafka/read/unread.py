"""Batches as they were sent, which are decoded later, many at once."""

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.kafka.codec.committed import FetchedBatch
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition


class UnreadBatch(NamedTuple):
    """A batch that is not decoded yet. Its records before the offset `wanted` were not asked for."""

    sent: FetchedBatch
    wanted: int

    @property
    def count(self) -> int:  # type: ignore[override]
        return self.sent.head.records


class UnreadFetched(Fetched):
    """Batches in order, each with its partition."""

    def __init__(self, entries: Sequence[tuple[TopicPartition, UnreadBatch]]) -> None:
        super().__init__()
        self.entries = entries


class Unread:
    """Makes a reader return batches as they were sent."""

    def made(self, batches: Sequence[FetchedBatch], wanted: int) -> Sequence[UnreadBatch]:
        return [UnreadBatch(sent, wanted) for sent in batches]

    def fetched(self, entries: Sequence[tuple[TopicPartition, UnreadBatch]]) -> Fetched:
        return UnreadFetched(entries)
