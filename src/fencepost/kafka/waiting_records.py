"""Records that were read in whole batches, decoded, and wait to be handed over, a slice at a time."""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from fencepost.kafka.batch.decode import decoded
from fencepost.kafka.batch.decode_columns import decoded_columns
from fencepost.kafka.batch.encode_header import CorruptBatchError
from fencepost.kafka.group_input import Fetched
from fencepost.kafka.unread import UnreadBatch, UnreadFetched
from fencepost.record import BinaryColumn, Repeated, TopicPartition

_NO_TIME = -1
_LOT_BYTES = 1 << 20  # as they were sent: what is made of that fits into one of Arrow's columns


class WaitingRecords:
    """A queue of records, in order within each partition, with where partitions end behind them.

    What is taken says in `epochs` where partitions go on, with the epoch of the leader that took what lies before.
    """

    def __init__(self) -> None:
        self._lots: deque[Fetched] = deque()  # each of one partition; without records it tells of an end
        self._at = 0  # how much of the first was taken
        self._records = 0

    def __len__(self) -> int:
        """Return how many records wait."""
        return self._records

    def add(self, fetched: UnreadFetched) -> None:
        """Have records wait behind all others. Raises CorruptBatchError."""
        behind: dict[TopicPartition, int] = {}
        for place, batches in _lots_of(fetched):
            lot = _decoded(place, batches)
            if len(lot):
                self._lots.append(lot)
                self._records += len(lot)
                behind[place] = lot.offsets[-1] + 1
        for place, end in fetched.ends.items():
            if end > behind.get(place, -1):
                self._lots.append(Fetched(ends={place: end}, epochs={place: fetched.epochs[place]}))

    def take(self, most: int) -> Fetched:
        """Return the first records, and the ends behind them; those that are left wait on."""
        taken: list[Fetched] = []
        while self._lots and (most > 0 or not len(self._lots[0])):
            lot = self._lots[0]
            stop = min(self._at + most, len(lot))
            taken.append(_part(lot, self._at, stop) if len(lot) else lot)
            most -= stop - self._at
            self._records -= stop - self._at
            self._at = stop
            if stop == len(lot):
                self._lots.popleft()
                self._at = 0
        return Fetched.joined(taken)

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Have nothing wait of these partitions any more."""
        if not self._lots:
            return
        if self._at:
            self._lots[0] = _part(self._lots[0], self._at, len(self._lots[0]))
            self._at = 0
        self._lots = deque(lot for lot in self._lots if lot.epochs.keys().isdisjoint(places))
        self._records = sum(map(len, self._lots))


def _lots_of(fetched: UnreadFetched) -> Iterator[tuple[TopicPartition, list[UnreadBatch]]]:
    """Yield the batches that are decoded together: of one partition and one epoch, and not too many."""
    for (place, *_), run in groupby(
        fetched.entries, lambda entry: (entry[0], entry[1].sent.head.epoch, _is_old(entry))
    ):
        lot: list[UnreadBatch] = []
        size = 0
        for _, batch in run:
            if lot and size + len(batch.sent.view) > _LOT_BYTES:
                yield place, lot
                lot, size = [], 0
            lot.append(batch)
            size += len(batch.sent.view)
        yield place, lot


def _is_old(entry: tuple[TopicPartition, UnreadBatch]) -> bool:
    return entry[1].sent.head.is_old


def _decoded(place: TopicPartition, batches: Sequence[UnreadBatch]) -> Fetched:
    """Return the records of batches of one epoch from the one on that was asked for."""
    head = batches[0].sent.head
    try:
        lot = _of_rows(place, batches) if head.is_old else _of_columns(place, batches)
    except CorruptBatchError as error:
        raise CorruptBatchError(f"{place.topic}-{place.partition}: {error}") from error
    before = bisect_left(lot.offsets, batches[0].wanted)
    lot = lot if not before else lot.part(before, len(lot))
    lot.epochs = {place: (lot.offsets[-1] + 1, head.epoch)} if len(lot) else {}
    return lot


def _of_columns(place: TopicPartition, batches: Sequence[UnreadBatch]) -> Fetched:
    views = [batch.sent.view for batch in batches if batch.count]
    if not views:
        return Fetched()
    found = decoded_columns(views)
    return _lot(place, _numbers(found.offsets), _numbers(found.timestamps), found.keys, found.values, found.headers)


def _of_rows(place: TopicPartition, batches: Sequence[UnreadBatch]) -> Fetched:
    """Return records of before Kafka 0.11, one by one: their batches are not what a column could be made of."""
    rows = [row for batch in batches for row in decoded(batch.sent.view)]
    times = [_NO_TIME if row.timestamp is None else row.timestamp for row in rows]
    keys, values = (pa.array(column, pa.binary()) for column in ([r.key for r in rows], [r.value for r in rows]))
    return _lot(place, [row.offset for row in rows], times, keys, values, None)


def _lot(
    place: TopicPartition, offsets: list[int], times: Sequence[int], keys: Any, values: Any, headers: Any
) -> Fetched:
    return Fetched(
        Repeated(place, len(offsets)),
        offsets,
        [None if at_ms == _NO_TIME else at_ms for at_ms in times] if _NO_TIME in times else times,
        BinaryColumn(keys),
        BinaryColumn(values),
        headers,
    )


def _part(lot: Fetched, start: int, stop: int) -> Fetched:
    """Return a part of a lot, which knows where its partition goes on."""
    part = lot.part(start, stop)
    if isinstance(part.keys, BinaryColumn) and part.keys.null_count == len(part):
        part.keys = Repeated(None, len(part))
    part.epochs = {place: (part.offsets[-1] + 1, epoch) for place, (_, epoch) in lot.epochs.items()}
    return part


def _numbers(array: Any) -> list[int]:
    """Return the numbers of an array of 64-bit integers without nulls, at the cost of a list."""
    numbers = memoryview(array.buffers()[1]).cast("B").cast("q")
    return numbers[array.offset : array.offset + len(array)].tolist()
