"""Messages as clients wrote them before Kafka 0.11, compressed together, and as a broker stores them."""

import gzip
import struct
from zlib import crc32

import pyarrow as pa

CODECS = ("none", "gzip", "snappy", "lz4")
APPEND_MS = 77
_LZ4_HEADER = bytes.fromhex("04224d18604082")  # of Java: independent blocks of up to 64 KiB
_WRONG_CHECKSUM = b"\x00"  # in format 0, that of an LZ4 header covers too many bytes
_LOG_APPEND_TIME = 0x08


def message(
    offset: int, magic: int, key: bytes | None, value: bytes | None, time_ms: int = -1, attributes: int = 0
) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", time_ms) if magic else b"")
    for each in (key, value):
        body += struct.pack(">i", -1) if each is None else struct.pack(">i", len(each)) + each
    return struct.pack(">qiI", offset, len(body) + 4, crc32(body)) + body


def old_log(
    base: int, count: int, magic: int, codec: str, *, is_appended: bool = False, is_sized: bool = False
) -> bytes:
    """Return messages with their number for a value; time and key only where there is something to see of them.

    `is_appended`: the broker has set their times, to APPEND_MS. `is_sized`: an LZ4 frame names the size of its content.
    """
    is_together = codec != "none"
    attributes = _LOG_APPEND_TIME if is_appended else 0
    inner = [
        message(
            n if is_together and magic else base + n,
            magic,
            b"k" if n else None,
            b"v%d" % n,
            APPEND_MS if is_appended and not is_together else 1_000 + n,
            0 if is_together else attributes,
        )
        for n in range(count)
    ]
    if not is_together:
        return b"".join(inner)
    packed = _packed(b"".join(inner), codec, magic, is_sized=is_sized)
    time_ms = APPEND_MS if is_appended else 999 + count
    return message(base + count - 1, magic, None, packed, time_ms, attributes | CODECS.index(codec))


def _packed(data: bytes, codec: str, magic: int, *, is_sized: bool) -> bytes:
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        block = pa.Codec("snappy").compress(data, asbytes=True)
        return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
    block = pa.Codec("lz4_raw").compress(data, asbytes=True)
    header = _LZ4_HEADER
    if magic == 0:
        size = struct.pack("<Q", len(data)) if is_sized else b""
        header = header[:4] + bytes((header[4] | (0x08 if is_sized else 0), header[5])) + size + _WRONG_CHECKSUM
    return header + struct.pack("<I", len(block)) + block + bytes(4)
