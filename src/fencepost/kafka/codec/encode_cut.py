"""Divides rows of a topic into batches of its partitions, none larger than allowed, and queues rows until they fill
one.

Keys choose partitions as for Java's producers: by murmur2, of all keys of a column at once.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import murmur2

from fencepost.kafka.codec.columns import joined_times
from fencepost.kafka.codec.encode import Rows, lengths, varint
from fencepost.kafka.codec.encode_header import HEADER
from fencepost.record.binary_column import ends, size_bytes

_WORD = 4
_MANY: Final = 5_000
_LONGEST: Final = 32  # bytes of a key
_UINT32 = pa.uint32()


def _number(value: int) -> pa.Scalar:
    return pa.scalar(value, _UINT32)


_M = _number(0x5BD1E995)
_SEED = _number(0x9747B28C)
_POSITIVE = _number(0x7FFFFFFF)
_ROUND, _FIRST, _SECOND = _number(24), _number(13), _number(15)
_EMPTY = pa.scalar(b"", pa.binary())


def partitions(keys: pa.Array, count: int) -> pa.Array:
    """Return the partition of each binary key, out of `count` partitions, as int32; null for a null.

    Few keys, and long ones, are hashed faster one by one (`python -m bench.encode`).
    """
    if len(keys) < _MANY or (pc.max(pc.binary_length(keys)).as_py() or 0) > _LONGEST:
        return pa.array([None if key is None else murmur2(key, count) for key in keys.to_pylist()], pa.int32())
    positive = pc.bit_wise_and(hashes(keys), _POSITIVE)
    whole = pc.multiply(pc.divide(positive, _number(count)), _number(count))
    return pc.subtract(positive, whole).cast(pa.int32())


def hashes(keys: pa.Array) -> pa.Array:
    """Return the hash of each key as uint32; null for a null. One long key makes all of them slow.

    This hashes the first word of all keys, then the second, and so on. Zeros fill the last word of a key.
    """
    sizes = pc.binary_length(keys).cast(_UINT32)
    shortest, longest = (size.as_py() or 0 for size in pc.min_max(sizes).values())
    count = -(-longest // _WORD)
    words = _words(keys, count)
    mixed = _times_m(_xor_shifted(_times_m(words), _ROUND))
    state = pc.bit_wise_xor(sizes, _SEED)
    for index in range(count):
        at = _every(index, count, len(keys))
        whole = pc.bit_wise_xor(_times_m(state), mixed.take(at))
        if _WORD * (index + 1) <= shortest:
            state = whole
            continue
        rest = _times_m(pc.bit_wise_xor(state, words.take(at)))
        is_whole = pc.greater_equal(sizes, _number(_WORD * (index + 1)))
        is_rest = pc.greater(sizes, _number(_WORD * index))
        state = pc.if_else(is_whole, whole, pc.if_else(is_rest, rest, state))
    return _xor_shifted(_times_m(_xor_shifted(state, _FIRST)), _SECOND)


def _words(keys: pa.Array, count: int) -> pa.Array:
    present = pc.fill_null(keys, _EMPTY) if keys.null_count else keys
    padded = pc.ascii_rpad(present.view(pa.string()), count * _WORD, "\0")
    return pa.Array.from_buffers(_UINT32, len(keys) * count, [None, padded.buffers()[2]])


def _every(first: int, step: int, count: int) -> pa.Array:
    sums = pc.cumulative_sum(pa.repeat(pa.scalar(step, pa.int64()), count))
    return pc.subtract(sums, pa.scalar(step - first, pa.int64()))


def _times_m(numbers: pa.Array) -> pa.Array:
    return pc.multiply(numbers, _M)  # keeps the low 32 bits, as Java does


def _xor_shifted(numbers: pa.Array, bits: pa.Scalar) -> pa.Array:
    return pc.bit_wise_xor(numbers, pc.shift_right(numbers, bits))


_MOST_RECORDS = 1 << 20
_INT32 = pa.int32()


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a batch. It is cut at `batch_bytes` (before compression, like `batch.size`) and at `records`.

    A single record may exceed `batch_bytes`, but its compressed batch may not exceed `topic_bytes`, the topic's
    `max.message.bytes`. All sizes include the batch header.
    """

    topic_bytes: int
    batch_bytes: int
    records: int = _MOST_RECORDS

    @property
    def cut_bytes(self) -> int:
        return min(self.batch_bytes, self.topic_bytes)


def placed(
    rows: Rows, limits: Limits, partition_count: int, spare: Iterator[int], chosen: pa.Array | None = None
) -> Iterator[tuple[int, Rows]]:
    """Split rows by partition. Rows of a partition keep their order. Without keys nothing is copied.

    A row goes to its `chosen` partition (int32; null if none is chosen for it), a row with a key to the key's
    partition. Other rows share a partition for as many rows as make a batch; `spare` yields these partitions.
    """
    if not len(rows):
        return
    if partition_count == 1:
        yield 0, rows
    elif rows.keys is None and chosen is None:
        for start, stop in cuts(rows, limits):
            yield next(spare), rows.slice(start, stop)
    else:
        for partition, indices in grouped(_partitions(rows, limits, partition_count, spare, chosen)):
            yield partition, rows if len(indices) == len(rows) else rows.take(indices)


def cuts(rows: Rows, limits: Limits) -> Iterator[tuple[int, int]]:
    """Yield where to cut rows so that each batch is as large as allowed, or has a single record."""
    overhead = _most_overhead(rows)
    totals = [ends(column) for column in rows.columns]
    room = limits.cut_bytes - HEADER.size

    def bytes_before(index: int) -> int:
        return overhead * index + sum(each[index] for each in totals)

    start, count = 0, len(rows)
    while start < count:
        most = min(count, start + limits.records)
        stop = bisect_right(range(most + 1), bytes_before(start) + room, lo=start + 1, key=bytes_before) - 1
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


def spare_partitions(count: int, first: int) -> Iterator[int]:
    """Yield partitions in turn, without end."""
    partition = first
    while True:
        yield partition % count
        partition += 1


def _partitions(
    rows: Rows, limits: Limits, partition_count: int, spare: Iterator[int], chosen: pa.Array | None
) -> pa.Array:
    found = pa.nulls(len(rows), _INT32) if rows.keys is None else partitions(rows.keys, partition_count)
    if chosen is not None:
        found = pc.coalesce(chosen, found)
    if not found.null_count:
        return found
    runs = [pa.repeat(pa.scalar(next(spare), _INT32), stop - start) for start, stop in cuts(rows, limits)]
    return pc.coalesce(found, pa.concat_arrays(runs))


def grouped(partitions: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Yield each partition with the indexes of its rows, in order. Rows without a partition are left out."""
    order = pc.array_sort_indices(partitions)  # equal ones stay in order, nulls come last
    runs = pc.run_end_encode(partitions.take(order))
    start = 0
    for partition, stop in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        if partition is not None:
            yield partition, order.slice(start, stop - start)
        start = stop


def _most_overhead(rows: Rows) -> int:
    most = [max(pc.max(lengths(column)).as_py(), 0) for column in rows.columns]
    spread = 0
    if not isinstance(rows.timestamps, int):
        first, last = (time.as_py() for time in pc.min_max(rows.timestamps).values())
        spread = last - first
    inner = 1 + len(varint(spread)) + len(varint(len(rows))) + sum(len(varint(size)) for size in most) + 2
    return inner + len(varint(sum(most) + inner))


_AROUND = 20  # about what a record takes besides its key, value and headers
_BINARY = pa.binary()
_NO_HEADERS = b"\0"


class RowQueue:
    """Rows in order, which are returned in pieces that each make a batch within the limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pieces: list[Rows] = []
        self._count = 0
        self.size_bytes = 0

    def add(self, rows: Rows) -> list[Rows]:
        """Queue rows (at least one). Returns the full batches."""
        self._wait(rows)
        if self.size_bytes < self._limits.cut_bytes and self._count < self._limits.records:
            return []
        *full, last = self.rest()
        self._wait(last)
        return full

    def _wait(self, rows: Rows) -> None:
        self._pieces.append(rows)
        self._count += len(rows)
        self.size_bytes += _AROUND * len(rows) + sum(map(size_bytes, rows.columns))

    def rest(self) -> list[Rows]:
        """Remove and return everything, as batches."""
        if not self._pieces:
            return []
        whole = joined(self._pieces)
        self._pieces, self._count, self.size_bytes = [], 0, 0
        return [whole.slice(*each) for each in cuts(whole, self._limits)]


def joined(pieces: Sequence[Rows]) -> Rows:
    """Return rows (at least one piece) as one, in order."""
    if len(pieces) == 1:
        return pieces[0]
    return Rows(
        pa.concat_arrays([each.values for each in pieces]),
        joined_times([(each.timestamps, len(each)) for each in pieces]),
        _column([(each.keys, len(each)) for each in pieces], None),
        _column([(each.headers, len(each)) for each in pieces], _NO_HEADERS),
    )


def _column(parts: Sequence[tuple[Any, int]], missing: bytes | None) -> Any:
    if all(part is None for part, _ in parts):
        return None
    absent = pa.scalar(missing, _BINARY)
    return pa.concat_arrays([pa.repeat(absent, count) if part is None else part for part, count in parts])
