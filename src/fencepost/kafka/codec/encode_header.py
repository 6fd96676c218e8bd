"""Writes the header of a record batch (magic 2) for its producer, and takes over whole batches from a broker."""

import struct
from dataclasses import dataclass, field
from typing import Final

import google_crc32c
import pyarrow as pa

from fencepost.api.errors import FatalError

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader's epoch, magic, checksum, attributes, last offset delta, first and newest timestamp,
producer's id, its epoch, base sequence, count."""
SEQUENCES: Final = 1 << 31
"""How many sequences there are: after the last one a producer begins with 0 again."""
_AFTER_LENGTH = 12
_AFTER_CHECKSUM = 21
_BASE = struct.Struct(">q")
_CHECKSUM = struct.Struct(">I")
_CHECKSUM_AT = 17
_MAGIC = 2
_CODEC = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20

Buffer = bytes | memoryview


class CorruptBatchError(FatalError):
    """The bytes of a batch do not match its checksum. They must not get a new one."""


class LooseBatchError(Exception):
    """A valid batch cannot be written unchanged. Its records must be encoded as a new batch."""


@dataclass(frozen=True, slots=True)
class BatchProducer:
    """The producer of a batch. Without an id there is no guarantee, and sequences have no meaning."""

    id: int = -1
    epoch: int = -1
    is_transactional: bool = False


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch of one partition, without its producer's id, epoch and sequence, and without the checksum.

    `body` holds the records as sent, compressed or not, in one or more buffers. `codec` is the number of their
    compression. `len` is the batch's size on the wire and in the log, in bytes.
    """

    body: tuple[Buffer, ...]
    count: int
    codec: int
    first_timestamp: int
    newest_timestamp: int
    _size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_size", HEADER.size + sum(map(len, self.body)))

    def __len__(self) -> int:
        return self._size

    def stamped(self, producer: BatchProducer, sequence: int) -> tuple[Buffer, ...]:
        """Return the buffers to send, in order. The next batch has the sequence `sequence + count`, modulo 2^31.

        A batch may be stamped again, by a producer of a later incarnation.
        """
        head = bytearray(HEADER.size)
        attributes = self.codec | (_TRANSACTIONAL if producer.is_transactional else 0)
        HEADER.pack_into(
            head,
            0,
            0,  # the broker assigns offsets
            len(self) - _AFTER_LENGTH,
            -1,
            _MAGIC,
            0,
            attributes,
            self.count - 1,  # a broker accepts any number here, and assigns offsets by it
            self.first_timestamp,
            self.newest_timestamp,
            producer.id,
            producer.epoch,
            sequence,
            self.count,
        )
        _CHECKSUM.pack_into(head, _CHECKSUM_AT, _checksum(memoryview(head)[_AFTER_CHECKSUM:], *self.body))
        return bytes(head), *self.body


def taken_batch(data: Buffer) -> EncodedBatch:
    """Convert a batch that a broker has sent, to write it elsewhere without looking at its records.

    The caller must know whether the batch's transaction was aborted: the batch does not say so.

    Raises:
        CorruptBatchError: The checksum is wrong, or the batch is cut off.
        LooseBatchError: Compaction has left gaps in it, it is a transaction marker, or its records have the time at
            which the source appended them, which only the old header contains.
    """
    view = memoryview(data)
    if len(view) < HEADER.size:
        raise CorruptBatchError(f"A batch of {len(view)} bytes is shorter than its header. {_CORRUPT}")
    base, length, _, magic, _, attributes, last, first, newest, *_, count = HEADER.unpack_from(view)
    place = f"The batch at offset {base}"
    if magic != _MAGIC:
        raise LooseBatchError(f"{place} has the format of version {magic}, which is older than Kafka 0.11")
    if length + _AFTER_LENGTH != len(view):
        raise CorruptBatchError(f"{place} has {len(view)} bytes but declares {length + _AFTER_LENGTH}. {_CORRUPT}")
    ensure_intact(view)
    if attributes & _CONTROL:
        raise LooseBatchError(f"{place} is a transaction's marker")
    if count < 1 or count != last + 1:
        raise LooseBatchError(f"{place} has {count} records for {last + 1} offsets")
    if attributes & _LOG_APPEND_TIME:
        raise LooseBatchError(f"{place} has log append times, which only its header has")
    return EncodedBatch((view[HEADER.size :],), count, attributes & _CODEC, first, newest)


def ensure_intact(batch: memoryview) -> None:
    """Raise CorruptBatchError if a batch does not match its checksum.

    Check this before the batch gets a new checksum (E22), which would make damaged bytes look valid.
    """
    if _checksum(batch[_AFTER_CHECKSUM:]) != _CHECKSUM.unpack_from(batch, _CHECKSUM_AT)[0]:
        (base,) = _BASE.unpack_from(batch)
        raise CorruptBatchError(f"The batch at offset {base} does not match its checksum. {_CORRUPT}")


def _checksum(*parts: Buffer) -> int:
    """Return the CRC-32C of the concatenated parts. The library does not accept a memoryview, so Arrow wraps it."""
    found = 0
    for part in parts:
        found = google_crc32c.extend(found, pa.py_buffer(part))
    return found


_CORRUPT = (
    "Nothing of it was written. Read it with another client; if that fails too, the log of the source's broker is "
    "damaged"
)
