"""The bodies of record batches compressed, in the frames that Kafka's Java code reads."""

import struct
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

NONE: Final = "none"

Compress = Callable[[memoryview], bytes]

# Java's reader wants the blocks of an LZ4 frame to be independent; those of Arrow's own frames are linked. So: version
# 1, independent blocks of up to 256 KiB, no sizes and no checksums; the last byte is the header's checksum.
_LZ4_HEADER = bytes.fromhex("04224d186050fb")
_LZ4_BLOCK = 256 << 10
_LZ4_PLAIN = 1 << 31  # the block that follows is not compressed
_LZ4_END = bytes(4)

# What Java calls Snappy is the stream of the library "xerial": a header with versions, then blocks with their sizes.
_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 << 10


class Codec:
    """One way to compress; `number` stands in a batch's attributes."""

    def __init__(self, name: str, level: int | None = None) -> None:
        """`name` is one of `NAMES`; `level` is of gzip and zstd, and of lz4 where Arrow knows one."""
        self.name = name
        self.number = NAMES.index(name)
        self._compress = None if name == NONE else _MADE[name](level)

    def compress(self, body: bytes | memoryview) -> bytes | None:
        """Return the body compressed, or None where that would not make it smaller: then it goes as it is."""
        if self._compress is None:
            return None
        data = self._compress(memoryview(body))
        return data if len(data) < len(body) else None


def _arrow(name: str, level: int | None) -> Compress:
    codec = pa.Codec(name, level)

    def compress(data: memoryview) -> bytes:
        # Arrow's own buffer is shrunk after it was made: a memoryview of that has the size from before.
        packed: bytes = codec.compress(pa.py_buffer(data), asbytes=True)
        return packed

    return compress


def _lz4(level: int | None) -> Compress:
    pack = _arrow("lz4_raw", level)

    def compress(data: memoryview) -> bytes:
        parts = [_LZ4_HEADER]
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
    """Return what was compressed by a codec that has this number, by whatever client. Raises ValueError, OSError."""
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
    """Read a stream of xerial's, or one plain block: some clients write that."""
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
    """Unpack one block; its first bytes say, seven bits each, how long it was."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    data: bytes = pa.Codec("snappy").decompress(pa.py_buffer(block), size, asbytes=True)
    return data
