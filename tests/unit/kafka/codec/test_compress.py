"""Bodies are compressed as their readers expect them."""

import gzip
import random

import pyarrow as pa
import pytest

from fencepost.kafka.codec.columns import rows
from fencepost.kafka.codec.compress import NAMES, NONE, Codec, decompressed
from fencepost.kafka.codec.encode import encode_batch

TEXT = b"".join(b"line %d of some text\n" % index for index in range(60_000))  # of several blocks


def unpacked(name: str, data: bytes, size: int) -> bytes:
    if name == "gzip":
        return gzip.decompress(data)
    if name == "snappy":
        return b"".join(snappy_blocks(data))
    return bytes(pa.Codec(name).decompress(data, size))  # of lz4, Arrow checks the header's checksum


def snappy_blocks(data: bytes) -> list[bytes]:
    assert data[:16] == b"\x82SNAPPY\0" + b"\0\0\0\1" * 2
    blocks, at = [], 16
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        block = data[at + 4 : at + 4 + size]
        blocks.append(bytes(pa.Codec("snappy").decompress(block, uncompressed_size(block))))
        at += 4 + size
    return blocks


def uncompressed_size(block: bytes) -> int:
    """Return the number that a Snappy block begins with."""
    size = shift = 0
    for byte in block:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return size


@pytest.mark.parametrize("name", NAMES[1:])
def test_compressed_text_is_decompressed_unchanged(name: str) -> None:
    packed = Codec(name).compress(TEXT)
    assert packed is not None
    assert len(packed) < len(TEXT) / 2
    assert unpacked(name, packed, len(TEXT)) == TEXT


@pytest.mark.parametrize("name", NAMES[1:])
def test_incompressible_blocks_are_decompressed_unchanged(name: str) -> None:
    mixed = random.Random(5).randbytes(300_000) + TEXT
    packed = Codec(name).compress(mixed)
    assert packed is not None
    assert unpacked(name, packed, len(mixed)) == mixed


@pytest.mark.parametrize("name", NAMES)
def test_incompressible_batch_body_is_sent_uncompressed(name: str) -> None:
    batch = encode_batch(rows([random.Random(7).randbytes(1_000)], now_ms=5), Codec(name))
    assert batch.codec == 0
    assert len(batch) < 1_000 + 61 + 20


def test_blocks_of_an_lz4_frame_are_independent() -> None:
    packed = Codec("lz4").compress(TEXT)
    assert packed is not None
    assert packed[4] & 0x20


@pytest.mark.parametrize(("name", "highest"), [("gzip", 9), ("zstd", 19)])
def test_compression_level_is_applied(name: str, highest: int) -> None:
    low, high = (Codec(name, level).compress(TEXT[:200_000]) or b"" for level in (1, highest))
    assert len(high) < len(low)


def streamed(name: str, data: bytes) -> bytes:
    """Return what a client writes that does not know the size before: it stands in no frame."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, name) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_frames_of_other_clients_are_read_with_or_without_sizes_and_in_a_row(name: str) -> None:
    sized, unsized = pa.Codec(name).compress(TEXT, asbytes=True), streamed(name, TEXT)
    for data in (sized, unsized, sized + unsized, unsized + streamed(name, b"") + sized):
        found = decompressed(NAMES.index(name), memoryview(data))
        assert bytes(found) == TEXT * (2 if len(data) > len(sized) * 3 // 2 else 1)


def test_a_plain_snappy_block_is_read() -> None:
    data = pa.Codec("snappy").compress(TEXT, asbytes=True)
    assert bytes(decompressed(NAMES.index("snappy"), memoryview(data))) == TEXT


def test_unknown_codec_name_is_refused() -> None:
    assert NONE in NAMES
    with pytest.raises(ValueError):
        Codec("brotli")
