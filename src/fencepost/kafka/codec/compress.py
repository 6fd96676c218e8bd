"""Compresses the bodies of record batches, in the formats that Kafka's Java code reads."""

import struct
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

NONE: Final = "none"

Compress = Callable[[memoryview], bytes]

# Java's reader requires independent blocks in an LZ4 frame, but the blocks of Arrow's frames are linked. This header
# says: version 1, independent blocks of up to 256 KiB, no sizes, no checksums. Its last byte is its own checksum.
LZ4_HEADER = bytes.fromhex("04224d186050fb")
_LZ4_BLOCK = 256 << 10
_LZ4_PLAIN = 1 << 31  # the next block is not compressed
_LZ4_END = bytes(4)

# In Java, Snappy means a stream of the library "xerial": a header with versions, then blocks, each after its size.
_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 << 10


class Codec:
    """A compression codec. Its `number` is in a batch's attributes."""

    def __init__(self, name: str, level: int | None = None) -> None:
        """`name` is one of `NAMES`. `level` applies to gzip and zstd, and to lz4 if Arrow supports it."""
        self.name = name
        self.number = NAMES.index(name)
        self._compress = None if name == NONE else _MADE[name](level)

    def compress(self, body: bytes | memoryview) -> bytes | None:
        """Return the compressed body, or None if it would not be smaller: it is then sent uncompressed."""
        if self._compress is None:
            return None
        data = self._compress(memoryview(body))
        return data if len(data) < len(body) else None


def _arrow(name: str, level: int | None) -> Compress:
    codec = pa.Codec(name, level)

    def compress(data: memoryview) -> bytes:
        # As bytes, because Arrow shrinks its buffer afterwards, and a memoryview of it keeps the old size.
        packed: bytes = codec.compress(pa.py_buffer(data), asbytes=True)
        return packed

    return compress


def _lz4(level: int | None) -> Compress:
    pack = _arrow("lz4_raw", level)

    def compress(data: memoryview) -> bytes:
        parts = [LZ4_HEADER]
        for block in _blocks(data, _LZ4_BLOCK):
            packed = pack(block)
            if len(packed) < len(block):
                parts += struct.pack("<I", len(packed)), packed
            else:
                parts += struct.pack("<I", len(block) | _LZ4_PLAIN), bytes(block)
        return b"".join((*parts, _LZ4_END))

    return compress


def _snappy(level: int | None) -> Compress:
    pack = _arrow("snappy", None)

    def compress(data: memoryview) -> bytes:
        parts = [_XERIAL_HEADER]
        for block in map(pack, _blocks(data, _XERIAL_BLOCK)):
            parts += struct.pack(">i", len(block)), block
        return b"".join(parts)

    return compress


def _blocks(data: memoryview, size: int) -> list[memoryview]:
    return [data[start : start + size] for start in range(0, len(data), size)]


_MADE: Mapping[str, Callable[[int | None], Compress]] = {
    "gzip": lambda level: _arrow("gzip", level),
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": lambda level: _arrow("zstd", level),
}
NAMES = (NONE, *_MADE)


def decompressed(number: int, body: bytes | memoryview) -> bytes | memoryview:
    """Decompress a body from any client with the codec of this number. Raises ValueError or OSError."""
    if number >= len(NAMES):
        raise ValueError(f"there is no codec {number}")
    name = NAMES[number]
    if name == NONE:
        return body
    if name == "snappy":
        return _unsnapped(memoryview(body))
    with pa.CompressedInputStream(pa.BufferReader(body), name) as stream:
        data: bytes = stream.read()
    return data


def _unsnapped(body: memoryview) -> bytes:
    """Read a xerial stream, or a single plain block, which some clients write."""
    if bytes(body[:8]) != _XERIAL_HEADER[:8]:
        return _unpacked_block(body)
    blocks, at = [], len(_XERIAL_HEADER)
    while at < len(body):
        start = at + 4
        at = start + int.from_bytes(body[at:start], "big")
        if at > len(body):
            raise ValueError("a block is cut off")
        blocks.append(_unpacked_block(body[start:at]))
    return b"".join(blocks)


def _unpacked_block(block: memoryview) -> bytes:
    """Decompress one block. Its first bytes give the decompressed size, seven bits each."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    data: bytes = pa.Codec("snappy").decompress(pa.py_buffer(block), size, asbytes=True)
    return data
