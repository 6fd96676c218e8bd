"""Divides rows of a topic into batches of its partitions, none larger than allowed, and queues rows until they fill
one.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec import murmur
from fencepost.kafka.codec.columns import joined_times
from fencepost.kafka.codec.encode import Rows, lengths, varint
from fencepost.kafka.codec.encode_header import HEADER
from fencepost.record.binary_column import ends, size_bytes

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
    found = pa.nulls(len(rows), _INT32) if rows.keys is None else murmur.partitions(rows.keys, partition_count)
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
