"""Decodes record batches to records, one by one, for batches that cannot be copied unchanged."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from fencepost.kafka.codec.compress import NAMES, Codec, decompressed
from fencepost.kafka.codec.encode import encode_batch
from fencepost.kafka.codec.encode_header import HEADER, Buffer, CorruptBatchError, EncodedBatch
from fencepost.kafka.codec.encode_rows import rows
from fencepost.record import HeaderBytes

_CODEC, _LOG_APPEND_TIME = 0x07, 0x08


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


def _legacy(view: memoryview) -> Iterator[DecodedRecord]:
    """Read messages from before Kafka 0.11 with kafka-python, and verify their checksums."""
    from fencepost.kafka.kafka_library import KafkaError, MemoryRecords

    try:
        messages = MemoryRecords(bytes(view))
        while (batch := messages.next_batch()) is not None:
            if not batch.validate_crc():
                raise ValueError("a checksum is wrong")
            for message in batch:
                yield DecodedRecord(message.offset, message.timestamp, message.key, message.value)
    except (KafkaError, ValueError, IndexError, struct.error) as error:
        raise CorruptBatchError(
            f"A message from before Kafka 0.11 cannot be read: {error}. Set producer.client=librdkafka to read it with "
            "another client"
        ) from error
