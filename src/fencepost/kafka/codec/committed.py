"""Selects the batches to copy from the bytes of a Fetch response: committed ones, after the position, verified (E22).

A response has whole batches from the one that contains the position, including aborted ones and transaction markers. It
names the aborted transactions; the producer ids of batches show which belong to them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from fencepost.kafka.codec.decode import DecodedRecord, decoded, encoded, records_of
from fencepost.kafka.codec.encode_header import (
    HEADER,
    CorruptBatchError,
    EncodedBatch,
    LooseBatchError,
    ensure_intact,
    taken_batch,
)

_AFTER_LENGTH = 12
_MAGIC_AT, _MAGIC = 16, 2
_LEAST_OLD = 26  # with checksum, attributes, and the lengths of a missing key and value
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_NO_EPOCH = -1
_SMALL = 10  # records: below, a batch costs more than its records do
_REBUILT_RECORDS, _REBUILT_BYTES = 5_000, 256 << 10


@dataclass(frozen=True, slots=True)
class CopiedBatch:
    """A batch to write, and the offsets of its records at the source."""

    batch: EncodedBatch
    offsets: Sequence[int]

    @property
    def count(self) -> int:
        return self.batch.count

    @property
    def size_bytes(self) -> int:
        return len(self.batch)

    @property
    def times_ms(self) -> tuple[int, int]:
        return self.batch.first_timestamp, self.batch.newest_timestamp

    def records(self) -> Sequence[DecodedRecord]:
        """Return its records as they will be written. Raises CorruptBatchError."""
        return records_of(self.batch)


class Answered(NamedTuple):
    """The data of one partition in a response: the batches as sent, and which of them must stay invisible.

    Invisible are batches from the last stable offset `stable` on, if it is known, and for each entry (first offset,
    producer id) of `aborted`, that producer's batches from that offset up to the abort marker.
    """

    records: memoryview
    stable: int = -1
    aborted: Sequence[tuple[int, int]] = ()


class Head(NamedTuple):
    """The header of a batch. A batch from before Kafka 0.11 has no transaction, and may not state all its offsets."""

    first: int
    last: int
    records: int
    epoch: int
    attributes: int
    producer: int
    is_old: bool

    @classmethod
    def of(cls, view: memoryview) -> "Head":
        if view[_MAGIC_AT] > _MAGIC:
            raise CorruptBatchError(f"A batch has format version {view[_MAGIC_AT]}, but {_MAGIC} is the newest known")
        if view[_MAGIC_AT] < _MAGIC:
            last = int.from_bytes(view[:8], "big", signed=True)
            attributes = view[_MAGIC_AT + 1] & _APPEND_TIME if view[_MAGIC_AT] else 0
            return cls(last, last, 1, _NO_EPOCH, attributes, -1, True)
        first, _, epoch, _, _, attributes, delta, _, _, producer, *_, count = HEADER.unpack_from(view)
        return cls(first, first + delta, count, epoch, attributes, producer, False)

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC

    @property
    def has_append_time(self) -> bool:
        """Say whether the broker has set the timestamps."""
        return bool(self.attributes & _APPEND_TIME)


class FetchedBatch(NamedTuple):
    """A batch as the broker sent it."""

    head: Head
    view: memoryview


class Position(NamedTuple):
    """An offset, and the leader epoch of the record before it; -1 if it is not known."""

    offset: int
    epoch: int = _NO_EPOCH


def committed_batches(answered: Answered, wanted: Position) -> tuple[list[FetchedBatch], Position]:
    """Return the committed batches with records at or after the position `wanted`, and the position after them.

    Raises CorruptBatchError if a batch does not match its checksum, before any of it is used. If valid batches precede
    it, they are returned first, and the next call raises.
    """
    found: list[FetchedBatch] = []
    aborted = sorted(answered.aborted, reverse=True)
    dropped: set[int] = set()
    position, previous_last = wanted, -1
    for view in _whole(answered.records):
        head = Head.of(view)
        if not head.is_old:  # else they have checksums of their own
            try:
                ensure_intact(view)  # E22
            except CorruptBatchError:
                if position.offset > wanted.offset:
                    break
                raise
        if head.last >= answered.stable >= 0:
            break
        if head.first <= previous_last or head.last < head.first:
            raise CorruptBatchError(f"A batch of offsets {head.first} to {head.last} follows offset {previous_last}")
        previous_last = head.last
        while aborted and aborted[-1][0] <= head.last:
            dropped.add(aborted.pop()[1])
        if head.attributes & _CONTROL:
            # A marker's key is a version and a type.
            if any((marker.key or b"")[2:4] == b"\0\0" for marker in decoded(view)):
                dropped.discard(head.producer)
        elif head.last >= wanted.offset and not (head.attributes & _TRANSACTIONAL and head.producer in dropped):
            found.append(FetchedBatch(head, view))
        if head.last >= position.offset:
            position = Position(head.last + 1, head.epoch)
    return found, position


def copied(batches: Sequence[FetchedBatch], wanted: int, now_ms: int) -> list[CopiedBatch]:
    """Return the batches to write for a partition's batches: unchanged, or rebuilt from their records if necessary.

    Consecutive small batches are joined, because that costs less than writing each.
    """
    made: list[CopiedBatch] = []
    for (is_whole, codec), group in groupby(batches, lambda sent: _way(sent.head, wanted)):
        found = list(group)
        if is_whole or len(found) == 1:
            for sent in found:
                made += _taken(sent, wanted, now_ms)
        else:
            made += _rebuilt((record for sent in found for record in decoded(sent.view)), codec, wanted, now_ms)
    return made


def _whole(records: memoryview) -> Iterator[memoryview]:
    """Yield the complete batches. The last one may be cut off, because the request has a size limit."""
    at = 0
    while len(records) - at > _MAGIC_AT:
        stop = at + _AFTER_LENGTH + int.from_bytes(records[at + 8 : at + _AFTER_LENGTH], "big")
        if stop > len(records):
            break
        if stop - at < (HEADER.size if records[at + _MAGIC_AT] >= _MAGIC else _LEAST_OLD):
            raise CorruptBatchError(f"A batch of {stop - at} bytes is shorter than its header")
        yield records[at:stop]
        at = stop
    if at == 0 and len(records):  # brokers never cut off the first: its length is wrong, and a retry would loop
        raise CorruptBatchError(f"An answer of {len(records)} bytes has no whole batch")


def _way(head: Head, wanted: int) -> tuple[bool, int]:
    """Return whether a batch is copied unchanged, and otherwise the codec for its records."""
    is_whole = not head.is_old and head.first >= wanted and head.records >= _SMALL
    return is_whole, 0 if is_whole else head.codec


def _taken(sent: FetchedBatch, wanted: int, now_ms: int) -> list[CopiedBatch]:
    head = sent.head
    if head.first >= wanted:
        try:
            return [CopiedBatch(taken_batch(sent.view), range(head.first, head.first + head.records))]
        except LooseBatchError:
            pass
    return _rebuilt(decoded(sent.view), head.codec, wanted, now_ms)


def _rebuilt(records: Iterable[DecodedRecord], codec: int, wanted: int, now_ms: int) -> list[CopiedBatch]:
    return [
        CopiedBatch(encoded(chunk, codec, now_ms), [record.offset for record in chunk])
        for chunk in _chunks(record for record in records if record.offset >= wanted)
    ]


def _chunks(records: Iterable[DecodedRecord]) -> Iterator[list[DecodedRecord]]:
    chunk: list[DecodedRecord] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if len(chunk) >= _REBUILT_RECORDS or size >= _REBUILT_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
