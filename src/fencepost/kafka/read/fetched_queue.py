"""Batches that were fetched and wait to be returned."""

import time
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

from fencepost.kafka.codec.committed import Answered, CopiedBatch, FetchedBatch, Position, committed_batches, copied
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.whole import WholeBatches, WholeFetched
from fencepost.record import TopicPartition


class Counted(Protocol):
    """A part of an answer, with its number of records."""

    @property
    def count(self) -> int: ...


class FetchedForm(Protocol):
    """The form in which a reader returns committed batches."""

    def made(self, batches: Sequence[FetchedBatch], wanted: int) -> Sequence[Counted]:
        """Convert batches of a partition that was read from offset `wanted` on. Raises CorruptBatchError.

        The batches are views of the answer's bytes.
        """

    def fetched(self, entries: Sequence[tuple[TopicPartition, Any]]) -> Fetched:
        """Return the converted batches, in order, with their partitions."""


class Copies:
    """Batches to write elsewhere."""

    def made(self, batches: Sequence[FetchedBatch], wanted: int) -> Sequence[CopiedBatch]:
        return copied(batches, wanted, int(time.time() * 1000))

    def fetched(self, entries: Sequence[tuple[TopicPartition, Any]]) -> Fetched:
        return WholeFetched(WholeBatches(entries))


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
    """Batches as they were sent, which are decoded later, many at once."""

    def made(self, batches: Sequence[FetchedBatch], wanted: int) -> Sequence[UnreadBatch]:
        return [UnreadBatch(sent, wanted) for sent in batches]

    def fetched(self, entries: Sequence[tuple[TopicPartition, UnreadBatch]]) -> Fetched:
        return UnreadFetched(entries)


class FetchedQueue:
    """Batches in the order of their arrival, and the positions of partitions after them."""

    def __init__(self, form: FetchedForm, *, is_committed: bool) -> None:
        """Leave out records of open and aborted transactions if `is_committed`."""
        self._form = form
        self._is_committed = is_committed
        self._entries: deque[tuple[TopicPartition, Counted | Position]] = deque()

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, place: TopicPartition, answer: Any, wanted: Position) -> Position:
        """Append the answer for the position `wanted`, and return the position after it. Raises CorruptBatchError."""
        aborted = [(each.first_offset, each.producer_id) for each in answer.aborted_transactions or ()]
        stable = answer.last_stable_offset if self._is_committed else -1
        try:
            found = Answered(memoryview(answer.records or b""), stable, aborted if self._is_committed else ())
            batches, position = committed_batches(found, wanted)
            made = self._form.made(batches, wanted.offset)
        except CorruptBatchError as error:
            raise CorruptBatchError(f"{place.topic}-{place.partition}: {error}") from error
        self._entries.extend((place, one) for one in made)
        if position.offset > wanted.offset:
            self._entries.append((place, position))
        return position

    def drop(self, places: Collection[TopicPartition]) -> None:
        self._entries = deque(each for each in self._entries if each[0] not in places)

    def take(self, most: int, most_bytes: float) -> Fetched:
        """Remove and return batches. The batch that reaches `most` records, or `most_bytes` of copies, is the last."""
        entries: list[tuple[TopicPartition, Counted]] = []
        next_offsets: dict[TopicPartition, Position] = {}
        count = size_bytes = 0
        waiting = self._entries
        while waiting and ((count < most and size_bytes < most_bytes) or isinstance(waiting[0][1], Position)):
            place, one = waiting.popleft()
            if isinstance(one, Position):
                next_offsets[place] = one
            else:
                entries.append((place, one))
                count += one.count
                size_bytes += one.size_bytes if isinstance(one, CopiedBatch) else 0
        fetched = self._form.fetched(entries)
        fetched.ends = {place: position.offset for place, position in next_offsets.items()}
        fetched.epochs = dict(next_offsets)
        return fetched
