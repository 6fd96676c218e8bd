"""Batches that were fetched and wait to be returned."""

import time
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec.committed import Answered, CopiedBatch, FetchedBatch, Position, committed_batches, copied
from fencepost.kafka.codec.decode import DecodedRecord, decoded
from fencepost.kafka.codec.decode_columns import decoded_columns
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.whole import WholeBatches, WholeFetched
from fencepost.record import AppendTime, BinaryColumn, Repeated, TopicPartition

_NO_TIME = -1
_NOWHERE = TopicPartition("", -1)
PORTION_BYTES = 1 << 20  # of batches as sent: once decoded, they fit into one Arrow column
FEW = 200  # records: for fewer, a loop costs less than Arrow's steps


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


class WaitingRecords:
    """A queue of records, in order within each partition, and of the ends of partitions after them.

    The `epochs` of taken records have the next offset of each partition, and the leader epoch of the record before it.
    """

    def __init__(self, few: int = FEW, portion_bytes: int = PORTION_BYTES) -> None:
        """Decode `few` records in Python rather than by Arrow, and about `portion_bytes` of batches at once."""
        self._few, self._portion_bytes = few, portion_bytes
        self._chunks: deque[Fetched] = deque()  # each of one partition; one without records has an end
        self._at = 0  # how many records of the first chunk were taken
        self._records = 0
        self.failure: Exception | None = None
        """What the next `take` raises in place of records."""

    def __len__(self) -> int:
        """Return the number of waiting records."""
        return self._records

    def add(self, fetched: UnreadFetched) -> None:
        """Decode batches and append their records to the queue. Raises CorruptBatchError."""
        next_offsets: dict[TopicPartition, int] = {}
        for chunk in decoded_chunks(fetched.entries, self._few, self._portion_bytes):
            self._chunks.append(chunk)
            self._records += len(chunk)
            next_offsets.update({place: offset for place, (offset, _) in chunk.epochs.items()})
        for place, end in fetched.ends.items():
            if end > next_offsets.get(place, -1):
                self._chunks.append(Fetched(ends={place: end}, epochs={place: fetched.epochs[place]}))

    def take(self, most: int) -> Fetched:
        """Remove and return the first `most` records, and the ends after them. Raises the failure once."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        taken: list[Fetched] = []
        while self._chunks and (most > 0 or not len(self._chunks[0])):
            chunk = self._chunks[0]
            stop = min(self._at + most, len(chunk))
            taken.append(_part(chunk, self._at, stop) if len(chunk) else chunk)
            most -= stop - self._at
            self._records -= stop - self._at
            self._at = stop
            if stop == len(chunk):
                self._chunks.popleft()
                self._at = 0
        return Fetched.joined(taken)

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Drop the waiting records of these partitions."""
        if not self._chunks:
            return
        if self._at:
            self._chunks[0] = _part(self._chunks[0], self._at, len(self._chunks[0]))
            self._at = 0
        self._chunks = deque(chunk for chunk in self._chunks if chunk.epochs.keys().isdisjoint(places))
        self._records = sum(map(len, self._chunks))


Entries = Sequence[tuple[TopicPartition, UnreadBatch]]


def decoded_chunks(entries: Entries, few: int = FEW, portion_bytes: int = PORTION_BYTES) -> Iterator[Fetched]:
    """Yield the records of batches in chunks of one partition and epoch, each of which fits into one Arrow column.

    Raises CorruptBatchError.
    """
    portions = _portions(entries, portion_bytes)
    return chain.from_iterable(_chunks_of(portion, few) for portion in portions)


def _portions(entries: Entries, most_bytes: int) -> Iterator[Entries]:
    """Yield the batches to decode together: they have one format, and at most `most_bytes` unless there is only one."""
    portion: list[tuple[TopicPartition, UnreadBatch]] = []
    size = 0
    for entry in entries:
        sent = entry[1].sent
        is_other = bool(portion) and portion[0][1].sent.head.is_old is not sent.head.is_old
        if is_other or (portion and size + len(sent.view) > most_bytes):
            yield portion
            portion, size = [], 0
        portion.append(entry)
        size += len(sent.view)
    if portion:
        yield portion


def _chunks_of(entries: Entries, few: int) -> Iterator[Fetched]:
    try:
        whole, counts = _decoded(entries, few)
    except CorruptBatchError as error:
        if len(entries) > 1:
            for entry in entries:  # to find the corrupt one; together they may only have been too large
                yield from _chunks_of([entry], few)
            return
        place = entries[0][0]
        raise CorruptBatchError(f"{place.topic}-{place.partition}: {error}") from error
    start = 0
    counted = zip(entries, counts, strict=True)
    for (place, epoch), run in groupby(counted, lambda each: (each[0][0], each[0][1].sent.head.epoch)):
        batches = list(run)
        stop = start + sum(count for _, count in batches)
        wanted = batches[0][0][1].wanted
        begin = start + bisect_left(whole.offsets[start:stop], wanted)
        if begin < stop:
            chunk = whole.part(begin, stop)
            chunk.places = Repeated(place, stop - begin)
            chunk.epochs = {place: (chunk.offsets[-1] + 1, epoch)}
            yield chunk
        start = stop


def _decoded(entries: Entries, few: int) -> tuple[Fetched, list[int]]:
    counts = [batch.count for _, batch in entries]
    if entries[0][1].sent.head.is_old or sum(counts) < few:
        rows = [list(decoded(batch.sent.view)) if batch.count else [] for _, batch in entries]
        counts = list(map(len, rows))
        return _with_append_times(_of_rows(list(chain.from_iterable(rows))), entries, counts), counts
    found = decoded_columns([batch.sent.view for _, batch in entries if batch.count])
    numbers = _numbers(found.offsets), _numbers(found.timestamps)
    lacks_times = pc.min(found.timestamps).as_py() < 0
    columns = _columns(*numbers, found.keys, found.values, found.headers, lacks_times=lacks_times)
    return _with_append_times(columns, entries, counts), counts


def _with_append_times(columns: Fetched, entries: Entries, counts: Sequence[int]) -> Fetched:
    """Mark the timestamps of batches in which the broker has set them."""
    if any(batch.sent.head.has_append_time for _, batch in entries):
        times, start = list(columns.timestamps), 0
        for (_, batch), count in zip(entries, counts, strict=True):
            part = slice(start, start := start + count)
            if batch.sent.head.has_append_time:
                times[part] = [None if at_ms is None else AppendTime(at_ms) for at_ms in times[part]]
        columns.timestamps = times
    return columns


def _of_rows(rows: Sequence[DecodedRecord]) -> Fetched:
    times = [_NO_TIME if row.timestamp is None else row.timestamp for row in rows]
    keys, values = (pa.array(column, pa.binary()) for column in ([r.key for r in rows], [r.value for r in rows]))
    offsets, headers = [row.offset for row in rows], [row.headers for row in rows]
    return _columns(offsets, times, keys, values, headers, lacks_times=_NO_TIME in times)


def _columns(
    offsets: Sequence[int], times: Sequence[int], keys: Any, values: Any, headers: Any, *, lacks_times: bool
) -> Fetched:
    return Fetched(
        Repeated(_NOWHERE, len(offsets)),
        offsets,
        [None if at_ms == _NO_TIME else at_ms for at_ms in times] if lacks_times else times,
        BinaryColumn(keys),
        BinaryColumn(values),
        headers,
    )


def _part(chunk: Fetched, start: int, stop: int) -> Fetched:
    part = chunk.part(start, stop)
    if isinstance(part.keys, BinaryColumn) and part.keys.null_count == len(part):
        part.keys = Repeated(None, len(part))
    part.epochs = {place: (part.offsets[-1] + 1, epoch) for place, (_, epoch) in chunk.epochs.items()}
    return part


def _numbers(column: Any) -> "array[int]":
    """Return a column of 64-bit integers without nulls, as numbers that are objects only when they are read."""
    found = array("q")
    found.frombytes(memoryview(column.buffers()[1]).cast("B")[8 * column.offset : 8 * (column.offset + len(column))])
    return found
