"""The header of a record batch (magic 2), written for its producer; and batches of a broker, taken over whole."""

import struct
from dataclasses import dataclass, field
from typing import Final

import google_crc32c
import pyarrow as pa

from fencepost.api.errors import FatalError

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader's epoch, magic, checksum, attributes, last offset delta, first and newest timestamp,
producer's id, its epoch, base sequence, count."""
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
_MOST_SEQUENCES = 1 << 31

Buffer = bytes | memoryview


class CorruptBatchError(FatalError):
    """The bytes of a batch are not those that its producer made a checksum of. They must not get a new one."""


class LooseBatchError(Exception):
    """A batch cannot be written as it is, though nothing is wrong with it: its records make a new one."""


@dataclass(frozen=True, slots=True)
class BatchProducer:
    """Who writes a batch. Without an id there is no guarantee, and sequences count nothing."""

    id: int = -1
    epoch: int = -1
    is_transactional: bool = False


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch of one partition but for what its producer stamps on it: who it is, the sequence and the checksum.

    `body` holds the records as they go over the wire, compressed or not, in one buffer or more; `codec` is the number
    of their compression. `len` is what the batch takes on the wire and in the log, in bytes.
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
        """Return the buffers to send, one behind the other. The next batch's sequence is `next_sequence`.

        A batch may be stamped again: by the producer of a later incarnation.
        """
        head = bytearray(HEADER.size)
        attributes = self.codec | (_TRANSACTIONAL if producer.is_transactional else 0)
        HEADER.pack_into(
            head,
            0,
            0,  # the broker gives offsets
            len(self) - _AFTER_LENGTH,
            -1,
            _MAGIC,
            0,
            attributes,
            self.count - 1,  # a broker takes any number here, and gives offsets by it
            self.first_timestamp,
            self.newest_timestamp,
            producer.id,
            producer.epoch,
            sequence,
            self.count,
        )
        _CHECKSUM.pack_into(head, _CHECKSUM_AT, _checksum(memoryview(head)[_AFTER_CHECKSUM:], *self.body))
        return bytes(head), *self.body

    def next_sequence(self, sequence: int) -> int:
        """Return the sequence behind this batch, where it has `sequence`: behind the largest comes 0."""
        return (sequence + self.count) % _MOST_SEQUENCES


def taken_batch(data: Buffer, *, is_append_time: bool = False) -> EncodedBatch:
    """Take a batch as a broker has sent it, to write it elsewhere without a look at its records.

    `is_append_time`: whether the topic that it goes to gives records the time at which they are appended. Whether the
    batch's transaction was aborted is for the caller to know: it does not stand in it.

    Raises:
        CorruptBatchError: its checksum is wrong, or it is cut off.
        LooseBatchError: compaction has left gaps in it, it is a transaction's marker, or its records bear the time at
            which the source appended them, which stands in the old header only.
    """
    view = memoryview(data)
    if len(view) < HEADER.size:
        raise CorruptBatchError(f"A batch of {len(view)} bytes is shorter than its header. {_CORRUPT}")
    base, length, _, magic, _, attributes, last, first, newest, *_, count = HEADER.unpack_from(view)
    place = f"The batch at offset {base}"
    if magic != _MAGIC:
        raise LooseBatchError(f"{place} has the format of version {magic}, which is older than Kafka 0.11")
    if length + _AFTER_LENGTH != len(view):
        raise CorruptBatchError(f"{place} has {len(view)} bytes and says {length + _AFTER_LENGTH}. {_CORRUPT}")
    ensure_intact(view)
    if attributes & _CONTROL:
        raise LooseBatchError(f"{place} is a transaction's marker")
    if count < 1 or count != last + 1:
        raise LooseBatchError(f"{place} has {count} records for {last + 1} offsets")
    if attributes & _LOG_APPEND_TIME and not is_append_time:
        raise LooseBatchError(f"{place} has the time of its append, which the target's topic does not give")
    return EncodedBatch((view[HEADER.size :],), count, attributes & _CODEC, first, newest)


def ensure_intact(batch: memoryview) -> None:
    """Raise CorruptBatchError for a batch that is not what its checksum was made of.

    Look before the batch gets a checksum of ours (E22): that would make what was damaged look whole.
    """
    if _checksum(batch[_AFTER_CHECKSUM:]) != _CHECKSUM.unpack_from(batch, _CHECKSUM_AT)[0]:
        (base,) = _BASE.unpack_from(batch)
        raise CorruptBatchError(f"The batch at offset {base} is not what its checksum was made of. {_CORRUPT}")


def _checksum(*parts: Buffer) -> int:
    """Return CRC-32C of the parts one behind the other. It takes no memoryview, but what Arrow makes of one."""
    found = 0
    for part in parts:
        found = google_crc32c.extend(found, pa.py_buffer(part))
    return found


_CORRUPT = (
    "Nothing of it was written: read it with another client; where that fails too, the log of the source's broker is "
    "damaged"
)


def restamp(
    data: Buffer, producer: BatchProducer, sequence: int, *, is_append_time: bool = False
) -> tuple[Buffer, ...]:
    """Return a broker's batch with another producer's header, as buffers to send; errors are `taken_batch`'s."""
    return taken_batch(data, is_append_time=is_append_time).stamped(producer, sequence)
