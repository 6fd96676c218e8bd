"""Record batches encoded record by record, for comparison with those encoded column by column."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from fencepost.kafka.codec.compress import NAMES, Codec
from fencepost.kafka.codec.encode_header import HEADER

_LEADER_EPOCH = slice(12, 16)  # Java's producers write -1 there, kafka-python 0; brokers write their own
_ROOM = 1 << 30
_AFTER_LENGTH, _CHECKSUM_AT = 12, 17


class PlainRecord(NamedTuple):
    """A record as consumers see it."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Kept(NamedTuple):
    """A record that compaction has left, with its distance from its batch's first offset."""

    further: int
    record: PlainRecord


def slow_batch(
    records: Sequence[PlainRecord], *, producer_id: int, epoch: int, sequence: int, is_transactional: bool
) -> bytes:
    """Return the bytes of an uncompressed batch, made by kafka-python."""
    builder = DefaultRecordBatchBuilder(2, 0, is_transactional, producer_id, epoch, sequence, _ROOM)
    for offset, record in enumerate(records):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    made = builder.build()
    made[_LEADER_EPOCH] = b"\xff" * 4
    return bytes(made)


def slow_body(records: Sequence[PlainRecord]) -> bytes:
    """Return the records of a batch, made by a plain loop from the description of the format."""
    return b"".join(_record(record, offset, records[0].timestamp) for offset, record in enumerate(records))


def kept_batch(
    base: int, kept: Sequence[Kept], first: int, *, newest: int = -1, attributes: int = 0, codec: str = "none"
) -> bytes:
    """Return a batch as a broker may have it: with gaps, and counting from a `first` time that no record has."""
    plain = b"".join(_record(record, further, first) for further, record in kept)
    packed = Codec(codec).compress(plain)
    attributes |= 0 if packed is None else NAMES.index(codec)
    return headed(base, kept[-1].further, packed or plain, len(kept), first, newest, attributes)


def headed(
    base: int, last: int, body: bytes, count: int, first: int = 0, newest: int = 0, attributes: int = 0
) -> bytes:
    """Return a batch of a body, with a header whose checksum is right."""
    size = HEADER.size - _AFTER_LENGTH + len(body)
    data = bytearray(HEADER.pack(base, size, 0, 2, 0, attributes, last, first, newest, -1, -1, -1, count) + body)
    struct.pack_into(">I", data, _CHECKSUM_AT, google_crc32c.value(bytes(data[_CHECKSUM_AT + 4 :])))
    return bytes(data)


def slow_varint(number: int) -> bytes:
    """Return a number as a zigzag varint, bit by bit."""
    rest = -2 * number - 1 if number < 0 else 2 * number
    groups = [rest & 0x7F]
    while rest := rest >> 7:
        groups.append(rest & 0x7F)
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def _record(record: PlainRecord, offset: int, first_timestamp: int) -> bytes:
    headers = b"".join(_sized(name.encode(errors="surrogateescape")) + _sized(value) for name, value in record.headers)
    numbers = slow_varint(record.timestamp - first_timestamp) + slow_varint(offset)
    fields = (b"\0", numbers, _sized(record.key), _sized(record.value), slow_varint(len(record.headers)), headers)
    return _sized(b"".join(fields))


def _sized(data: bytes | None) -> bytes:
    return slow_varint(-1) if data is None else slow_varint(len(data)) + data
