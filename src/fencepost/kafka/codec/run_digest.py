"""Digests of a run: records that one producer writes to one partition, in order.

A digest depends on the records and their order, and not on how they are divided into batches, compressed or stamped
with a time: so it can be computed from what a producer queues, and again from what the log contains.

Values and keys have a CRC-32C for each block of `BLOCK` records. A larger block costs less, a smaller one says better
where a difference is: the first 64 records of 100 bytes cost 10 ns each, of which 5 are the checksum's.
"""

import struct
from collections.abc import Sequence
from operator import sub
from typing import Any, NamedTuple

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec.columns import Headers, PartitionColumns
from fencepost.record import HeaderBytes, TopicPartition, runs_of
from fencepost.record.binary_column import ends

BLOCK = 64
"""Records in a block."""

_INT = pa.int32()
_NO_LENGTH, _EMPTY = pa.scalar(-1, _INT), pa.scalar(b"", pa.binary())
_CHUNK = 4096
_FEW = 16
_NONE = pa.py_buffer(b"")
_NO_LENGTHS = (-1).to_bytes(4, "little", signed=True) * _CHUNK
_NO_HEADERS = bytes(4 * _CHUNK)


class DigestOfRun(NamedTuple):
    """What is kept of a run.

    `values` and `keys` have a checksum for each block, None where records were left out; keys that are all missing
    have none. `lengths` covers the lengths of all keys and values, `headers` the headers of all records.
    """

    records: int
    size_bytes: int
    values: tuple[int | None, ...]
    keys: tuple[int | None, ...]
    lengths: int
    headers: int


class WrittenRun(NamedTuple):
    """Records of one partition, in order, as a producer's batches name them: its id, its epoch, the first sequence.

    `topic_id` distinguishes the topic from a deleted one of the same name. `after` is an offset that all of the records
    come after; -1 if none is known.
    """

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    sequence: int
    digest: DigestOfRun
    topic_id: str = ""
    after: int = -1


class BlockSums:
    """Checksums of a column of bytes, one for each block of records."""

    def __init__(self) -> None:
        self.sums: list[int | None] = []
        self._open: int | None = 0
        self._count = 0  # records in the open block
        self.size_bytes = 0

    def add(self, array: Any) -> None:
        """Add values of an Arrow array of bytes in which no null occupies any."""
        borders = ends(array)
        data = array.buffers()[2]
        view = memoryview(b"" if data is None else data)
        count, at = len(array), 0
        self.size_bytes += borders[-1] - borders[0]
        if self._count:
            at = min(BLOCK - self._count, count)
            self._extend(view[borders[0] : borders[at]], at)
        whole = (count - at) // BLOCK
        if whole:
            stops = borders[at : at + whole * BLOCK + 1 : BLOCK].tolist()  # type: ignore[attr-defined]
            lengths = map(sub, stops[1:], stops)
            # A part of Arrow's buffer is not copied; of a memoryview, which this takes not, it would have to be.
            self.sums += map(google_crc32c.value, map(_NONE.slice if data is None else data.slice, stops, lengths))
            at += whole * BLOCK
        if at < count:
            self._extend(view[borders[at] : borders[count]], count - at)

    def add_few(self, values: Sequence[bytes | None]) -> None:
        """Add a few values. Without Arrow that is faster."""
        while values:
            part, values = values[: BLOCK - self._count], values[BLOCK - self._count :]
            data = b"".join(filter(None, part))
            self.size_bytes += len(data)
            self._extend(data, len(part))

    def add_none(self, count: int) -> None:
        """Add values that are missing or empty."""
        while count:
            step = min(BLOCK - self._count, count)
            self._extend(b"", step)
            count -= step

    def skip(self, count: int) -> None:
        """Leave out records that cannot be read. The checksums of their blocks are None."""
        while count:
            step = min(BLOCK - self._count, count)
            self._open = None
            self._extend(b"", step)
            count -= step

    def all(self) -> tuple[int | None, ...]:
        """Return the checksums, with that of a last block that is not full."""
        return (*self.sums, self._open) if self._count else tuple(self.sums)

    def _extend(self, data: bytes | memoryview, count: int) -> None:
        if self._open is not None:
            self._open = google_crc32c.extend(self._open, bytes(data))
        self._count += count
        if self._count == BLOCK:
            self.sums.append(self._open)
            self._open = self._count = 0


class RunDigest:
    """The digest of a run while its records come in. For one thread at a time."""

    def __init__(self) -> None:
        self.records = 0
        self._values, self._keys = BlockSums(), BlockSums()
        self._has_keys = False
        self._key_lengths = self._value_lengths = self._headers = 0
        self._header_bytes = 0

    def add(self, columns: PartitionColumns) -> None:
        """Add records to the end of the run."""
        self.add_fields(columns.values, columns.keys, columns.headers)

    def add_fields(self, values: Any, keys: Any, headers: Headers | None) -> None:
        """Add records as Arrow arrays of bytes; `keys` is None if no record has one, `headers` if none has any."""
        count = len(values)
        if not count:
            return
        self.records += count
        self._value_lengths = _add_column(self._values, self._value_lengths, values)
        if keys is None or keys.null_count == count:
            if self._has_keys:
                self._keys.add_none(count)
            self._key_lengths = _repeated(self._key_lengths, _NO_LENGTHS, count)
        else:
            if not self._has_keys:
                self._keys.add_none(self.records - count)
                self._has_keys = True
            self._key_lengths = _add_column(self._keys, self._key_lengths, keys)
        if headers is None:
            self._headers = _repeated(self._headers, _NO_HEADERS, count)
        else:
            data = b"".join(_data_of_one(of_record) * count for of_record, count in runs_of(headers))
            self._headers = google_crc32c.extend(self._headers, data)
            self._header_bytes += len(data) - 4 * count

    def skip(self, count: int) -> None:
        """Leave out records that cannot be read: only blocks without any of them can be compared then."""
        self.records += count
        self._values.skip(count)
        self._keys.skip(count)
        self._has_keys = True

    def digest(self) -> DigestOfRun:
        """Return the digest of the records so far."""
        return DigestOfRun(
            self.records,
            self._values.size_bytes + self._keys.size_bytes + self._header_bytes,
            self._values.all(),
            self._keys.all(),
            self._key_lengths << 32 | self._value_lengths,
            self._headers,
        )


def _add_column(sums: BlockSums, lengths: int, array: Any) -> int:
    """Add a column to its sums. Returns the checksum of its lengths so far; a null has the length -1."""
    if len(array) <= _FEW:
        values = array.to_pylist()
        sums.add_few(values)
        each = [-1 if value is None else len(value) for value in values]
        return int(google_crc32c.extend(lengths, struct.pack(f"<{len(each)}i", *each)))
    found = pc.binary_length(array)
    if array.null_count:
        found, array = pc.fill_null(found, _NO_LENGTH), pc.fill_null(array, _EMPTY)
    sums.add(array)
    return int(google_crc32c.extend(lengths, found.buffers()[1].slice(4 * found.offset, 4 * len(found))))


def _repeated(crc: int, data: bytes, count: int) -> int:
    while count:
        step = min(count, _CHUNK)
        crc = google_crc32c.extend(crc, data if step == _CHUNK else data[: 4 * step])
        count -= step
    return crc


def _data_of_one(headers: Sequence[HeaderBytes]) -> bytes:
    """Return headers so that different ones are different bytes: counts, and names and values after their lengths."""
    parts = [len(headers).to_bytes(4, "little")]
    for name, value in headers:
        parts += (*_sized(name.encode()), *_sized(value))
    return b"".join(parts)


def _sized(data: bytes | None) -> Sequence[bytes]:
    if data is None:
        return ((-1).to_bytes(4, "little", signed=True),)
    return len(data).to_bytes(4, "little", signed=True), data
