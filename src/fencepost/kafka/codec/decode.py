"""Decodes record batches to records, one by one, for batches that cannot be copied unchanged."""

import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from fencepost.kafka.codec.columns import rows
from fencepost.kafka.codec.compress import LZ4_HEADER, NAMES, Codec, decompressed
from fencepost.kafka.codec.encode import encode_batch
from fencepost.kafka.codec.encode_header import HEADER, Buffer, CorruptBatchError, EncodedBatch
from fencepost.record import HeaderBytes

_CODEC, _LOG_APPEND_TIME = 0x07, 0x08
_OLD_HEADER = struct.Struct(">qiIbb")  # offset, length, checksum, format, attributes
_OLD_LENGTH_END, _OLD_CHECKSUM_END = 12, 16
_LZ4_SIZED = 0x08  # the frame's header has the size of its content


class DecodedRecord(NamedTuple):
    """A record, with its offset in the batch's partition. `timestamp` is None if it has none."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[HeaderBytes, ...] = ()


def decoded(data: Buffer) -> Iterator[DecodedRecord]:
    """Yield the records of a batch as a broker sent it. Its checksum must be verified already.

    Raises CorruptBatchError if the bytes are not valid records.
    """
    view = memoryview(data)
    if view[16] < 2:
        yield from _legacy(view)
        return
    base, _, _, _, _, attributes, _, first, newest, *_, count = HEADER.unpack_from(view)
    for record in _records(view[HEADER.size :], attributes & _CODEC, count, base, first):
        yield record._replace(timestamp=newest) if attributes & _LOG_APPEND_TIME else record


def records_of(batch: EncodedBatch) -> list[DecodedRecord]:
    """Return the records of a batch to be written. The first has offset 0. Raises CorruptBatchError."""
    return list(_records(memoryview(b"".join(batch.body)), batch.codec, batch.count, 0, batch.first_timestamp))


def encoded(records: list[DecodedRecord], codec: int, now_ms: int) -> EncodedBatch:
    """Encode these records as one batch without offset gaps. Records without a timestamp get `now_ms`."""
    columns = rows(
        [record.value for record in records],
        now_ms=now_ms,
        keys=[record.key for record in records],
        timestamps=[record.timestamp for record in records],
        headers=[record.headers for record in records],
    )
    return encode_batch(columns, Codec(NAMES[codec]))


def _records(body: memoryview, codec: int, count: int, base: int, first: int) -> Iterator[DecodedRecord]:
    try:
        data = bytes(decompressed(codec, body))
        at = 0
        for _ in range(count):
            length, at = _varint(data, at)
            stop = at + length
            yield _record(data, at, stop, base, first)
            at = stop
        if at != len(data):
            raise ValueError(f"{count} records end at byte {at} of {len(data)}")
    except (IndexError, ValueError, OSError) as error:
        raise CorruptBatchError(f"The records of the batch at offset {base} cannot be read: {error}") from error


def _record(data: bytes, at: int, stop: int, base: int, first: int) -> DecodedRecord:
    later, at = _varint(data, at + 1)  # after the attributes
    further, at = _varint(data, at)
    key, at = _bytes(data, at)
    value, at = _bytes(data, at)
    headers, at = headers_at(data, at)
    if at != stop:
        raise ValueError(f"a record ends at byte {at}, not at {stop}")
    return DecodedRecord(base + further, first + later, key, value, headers)


def headers_at(data: bytes, at: int) -> tuple[tuple[HeaderBytes, ...], int]:
    """Return a record's headers, and where they end. Bytes of a name that are not text become U+FFFD, as in Java.

    Raises IndexError, ValueError.
    """
    count, at = _varint(data, at)
    headers = []
    for _ in range(count):
        name, at = _bytes(data, at)
        content, at = _bytes(data, at)
        headers.append(((name or b"").decode(errors="replace"), content))
    return tuple(headers), at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    if size < 0:
        return None, at
    return data[at : at + size], at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    number, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), at + 1


class _OldMessage(NamedTuple):
    """A message from before Kafka 0.11, which may hold other ones that are compressed together."""

    offset: int
    magic: int
    attributes: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None


def _legacy(view: memoryview) -> Iterator[DecodedRecord]:
    """Read messages from before Kafka 0.11, and verify the checksums of those that are not inside of others."""
    try:
        for outer in _old_messages(view, is_verified=True):
            codec = outer.attributes & _CODEC
            if not codec:
                yield DecodedRecord(outer.offset, outer.timestamp, outer.key, outer.value)
                continue
            data = outer.value or b""
            if outer.magic == 0 and NAMES[codec] == "lz4":
                data = _with_correct_header(data)
            inner = list(_old_messages(memoryview(decompressed(codec, data)), is_verified=False))
            # Since format 1 offsets are relative, once a broker has stored the messages.
            further = max(outer.offset - inner[-1].offset, 0) if outer.magic else 0
            has_append_time = outer.attributes & _LOG_APPEND_TIME
            for each in inner:
                timestamp = outer.timestamp if has_append_time else each.timestamp
                yield DecodedRecord(each.offset + further, timestamp, each.key, each.value)
    except (IndexError, ValueError, OSError, struct.error) as error:
        raise CorruptBatchError(
            f"A message from before Kafka 0.11 cannot be read: {error}. Set producer.client=librdkafka to read it with "
            "another client"
        ) from error


def _old_messages(view: memoryview, *, is_verified: bool) -> Iterator[_OldMessage]:
    at = 0
    while at < len(view):
        offset, length, checksum, magic, attributes = _OLD_HEADER.unpack_from(view, at)
        stop = at + _OLD_LENGTH_END + length
        if length <= 0 or stop > len(view):
            raise ValueError("a message is cut off")
        if is_verified and crc32(view[at + _OLD_CHECKSUM_END : stop]) != checksum:
            raise ValueError("a checksum is wrong")
        at += _OLD_HEADER.size
        timestamp: int | None = None
        if magic:
            (timestamp,), at = struct.unpack_from(">q", view, at), at + 8
        key, at = _old_bytes(view, at)
        value, at = _old_bytes(view, at)
        if at != stop:
            raise ValueError(f"a message ends at byte {at}, not at {stop}")
        yield _OldMessage(offset, magic, attributes, timestamp, key, value)


def _old_bytes(view: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,), at = struct.unpack_from(">i", view, at), at + 4
    return (None, at) if size < 0 else (bytes(view[at : at + size]), at + size)


def _with_correct_header(frame: bytes) -> bytes:
    """Replace the header of an LZ4 frame of format 0, in which Kafka's clients computed its checksum of wrong bytes."""
    flags = frame[4]
    if flags & ~_LZ4_SIZED != LZ4_HEADER[4]:
        raise ValueError(f"an LZ4 frame has flags {flags:#x}")
    return LZ4_HEADER + frame[len(LZ4_HEADER) + (8 if flags & _LZ4_SIZED else 0) :]
