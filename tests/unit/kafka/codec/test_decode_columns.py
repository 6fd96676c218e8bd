"""Whole batches to columns: what a record at a time says is right."""

import random
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.kafka.codec.compress import NAMES, Codec
from fencepost.kafka.codec.decode import decoded
from fencepost.kafka.codec.decode_columns import decoded_columns
from fencepost.kafka.codec.encode import encode_batch
from fencepost.kafka.codec.encode_header import HEADER, BatchProducer, CorruptBatchError
from support.batch_records import DrawnBatch, drawn_batch, drawn_records, rows_of
from support.slow_batch import PlainRecord, kept_batch

_LOG_APPEND_TIME = 0x08


def stored(base: int, records: Sequence[PlainRecord], codec: str = "none", *, is_append_time: bool = False) -> bytes:
    """Return a batch as a broker has it."""
    batch = bytearray(b"".join(encode_batch(rows_of(records), Codec(codec)).stamped(BatchProducer(), 0)))
    struct.pack_into(">q", batch, 0, base)
    if is_append_time:
        struct.pack_into(">h", batch, 21, struct.unpack_from(">h", batch, 21)[0] | _LOG_APPEND_TIME)
    return bytes(batch)


def of(*sizes: int) -> list[PlainRecord]:
    return [PlainRecord(None, bytes([n % 251]) * size, 1_000 + n // 30) for n, size in enumerate(sizes)]


def rows_in_columns(batches: Sequence[bytes]) -> list[tuple[Any, ...]]:
    found = decoded_columns([memoryview(batch) for batch in batches])
    headers = found.headers or [()] * len(found)
    columns = (found.offsets, found.timestamps, found.keys, found.values)
    return list(zip(*(column.to_pylist() for column in columns), map(tuple, headers), strict=True))


def rows_one_by_one(batches: Sequence[bytes]) -> list[tuple[Any, ...]]:
    return [tuple(record) for batch in batches for record in decoded(batch)]


@pytest.mark.parametrize("codec", NAMES)
@settings(max_examples=25)
@given(drawn=st.lists(st.tuples(drawn_records(30), st.booleans()), min_size=1, max_size=4))
def test_columns_of_batches_equal_records_decoded_one_by_one(
    codec: str, drawn: list[tuple[list[PlainRecord], bool]]
) -> None:
    batches = [
        stored(1_000 * n, records, codec, is_append_time=is_append_time)
        for n, (records, is_append_time) in enumerate(drawn)
    ]
    assert rows_in_columns(batches) == rows_one_by_one(batches)
    found = decoded_columns([memoryview(batch) for batch in batches])
    assert found.is_append_time.to_pylist() == [is_append for records, is_append in drawn for _ in records]


@given(st.lists(st.permutations([1, 3, 70]) | st.sampled_from([(200,), (1, 3, 70)]), min_size=3, max_size=12))
def test_batches_of_equal_count_and_size_keep_their_own_record_lengths(sizes: list[Sequence[int]]) -> None:
    """A length of one byte and another of two may change places."""
    batches = [stored(1_000 * n, of(*each)) for n, each in enumerate(sizes)]
    assert rows_in_columns(batches) == rows_one_by_one(batches)


@pytest.mark.parametrize("codec", NAMES)
@settings(max_examples=25)
@given(drawn=st.lists(drawn_batch(), min_size=1, max_size=4), base=st.sampled_from((0, 2**31 - 1, 2**32, 2**61)))
def test_batches_with_offset_gaps_and_any_timestamps_are_decoded(
    codec: str, drawn: list[DrawnBatch], base: int
) -> None:
    batches, rows = [], []
    for each in drawn:
        kept, first, newest, attributes = each
        batches.append(kept_batch(base, kept, first, newest=newest, attributes=attributes, codec=codec))
        is_append_time = attributes & _LOG_APPEND_TIME
        rows += [
            (base + further, newest if is_append_time else record.timestamp, record.key, record.value, record.headers)
            for further, record in kept
        ]
        base += kept[-1].further + 1
    assert rows_one_by_one(batches) == rows
    assert rows_in_columns(batches) == rows


def test_record_with_thousands_of_equally_named_headers_is_decoded() -> None:
    many = tuple(("name", None if n % 3 else b"%d" % n) for n in range(9_000))
    records = [PlainRecord(b"k", None, 1, many), PlainRecord(None, b"", 2), PlainRecord(b"", b"v", 3, many[:1])]
    batch = stored(5, records)
    assert [row[4] for row in rows_in_columns([batch])] == [many, (), many[:1]]


@pytest.mark.parametrize("name", [b"\xff\xfe", b"caf\xe9", b"a\x00b"])
def test_invalid_utf8_in_a_header_name_is_replaced_as_in_java(name: bytes) -> None:
    batch = stored(0, [PlainRecord(b"k", b"v", 1, (("?" * len(name), b"1"),))] * 3)
    changed = batch.replace(b"?" * len(name), name)
    expected = [((name.decode(errors="replace"), b"1"),)] * 3
    assert [row[4] for row in rows_one_by_one([changed])] == expected
    assert [row[4] for row in rows_in_columns([changed])] == expected


@pytest.mark.parametrize("codec", NAMES[1:])
@pytest.mark.parametrize("change", ["cut", "more"])
def test_compressed_stream_with_missing_or_extra_bytes_is_refused(codec: str, change: str) -> None:
    """A producer's fault: the checksum is right. Of `more` some bytes come behind the stream."""
    batch = stored(40, of(100, 100, 100), codec)
    changed = batch[:-3] if change == "cut" else batch + b"\0\0"
    for decode in (rows_one_by_one, rows_in_columns):
        with pytest.raises(CorruptBatchError, match="40"):
            decode([changed])


@pytest.mark.parametrize("count", [2, 4])
def test_batch_with_a_wrong_record_count_is_refused(count: int) -> None:
    batch = bytearray(stored(40, of(100, 100, 100)))
    struct.pack_into(">i", batch, HEADER.size - 4, count)
    for decode in (rows_one_by_one, rows_in_columns):
        with pytest.raises(CorruptBatchError, match="40"):
            decode([bytes(batch)])


@pytest.mark.parametrize("sizes", [(100,), (5,), (60, 61), (5, 100, 8_200), (9_000,)], ids=str)
def test_long_runs_of_equally_sized_records_are_decoded(sizes: tuple[int, ...]) -> None:
    """The offset in a batch takes another byte from 64 on, and from 8192 on."""
    for count in (1, 2, 63, 64, 65, 130, 8_300 if max(sizes) <= 100 else 300):
        batch = stored(7, of(*[sizes[n * len(sizes) // count] for n in range(count)]))
        assert rows_in_columns([batch, batch]) == rows_one_by_one([batch, batch])


def test_adjacent_batches_of_any_count_have_their_own_offsets() -> None:
    batches = [stored(base, of(*[1] * count)) for base, count in ((0, 3), (3, 20_000), (40_000, 1), (40_001, 9_000))]
    assert rows_in_columns(batches) == rows_one_by_one(batches)


def test_offset_deltas_that_contradict_the_record_count_are_refused() -> None:
    """Three records whose last is two behind the first have no room for other offsets than the three."""
    batch = stored(40, of(100, 100, 100))
    size = (len(batch) - HEADER.size) // 3
    second = HEADER.size + size + 4  # behind a length of two bytes, the attributes and the timestamp's distance
    changed = batch[:second] + bytes([2 * 5]) + batch[second + 1 :]
    assert [row[0] for row in rows_one_by_one([changed])] == [40, 45, 42]
    with pytest.raises(CorruptBatchError, match="40"):
        rows_in_columns([changed])


@pytest.mark.parametrize("width", range(1, 11))
def test_varint_of_any_width_is_decoded(width: int) -> None:
    """A timestamp's distance from the first has up to ten bytes, of which the last one holds a single bit."""
    far = (1 << min(7 * width - 1, 63)) - 1
    times = [0, far, 0, -far - 1, 5]
    batch = stored(9, [PlainRecord(None, b"v", 0), *(PlainRecord(b"k", b"v", at) for at in times if at >= 0)])
    assert rows_in_columns([batch]) == rows_one_by_one([batch])
    back = stored(9, [PlainRecord(None, b"v", far), *(PlainRecord(b"k", b"v", at) for at in times if at >= 0)])
    assert rows_in_columns([batch, back]) == rows_one_by_one([batch, back])


def test_varint_of_eleven_bytes_is_refused() -> None:
    batch = stored(0, [PlainRecord(None, b"v" * 40, 1)])
    records = bytearray(batch[HEADER.size :])
    records[2:3] = b"\x80" * 10 + b"\x01"  # behind the length and the attributes: the timestamp's distance
    records[0] += 2 * 10
    with pytest.raises(CorruptBatchError, match="a number does not end"):
        decoded_columns([memoryview(batch[: HEADER.size] + bytes(records))])


def test_records_of_changing_sizes_are_decoded() -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"\nseed={seed}")
    drawn = random.Random(seed)
    batch = stored(0, of(*[drawn.choice((10, 10, 11, 70, 9_000)) for _ in range(2_000)]))
    assert rows_in_columns([batch]) == rows_one_by_one([batch])


def test_unrequested_columns_are_skipped() -> None:
    batch = stored(3, [PlainRecord(b"k%d" % n, b"v", 1, (("h", None),)) for n in range(100)])
    found = decoded_columns([memoryview(batch)], ["value"])
    assert (found.keys, found.headers) == (None, None)
    assert found.values.to_pylist() == [b"v"] * 100
    assert decoded_columns([memoryview(batch)], []).offsets.to_pylist() == list(range(3, 103))


@settings(max_examples=300)
@given(data=st.data())
def test_corrupt_records_are_refused_or_read_within_the_batch(data: st.DataObject) -> None:
    """A batch whose checksum fits may say anything: nothing is read that is not in it."""
    records = [PlainRecord(b"key", b"v" * 70, n, (("h", b"1"),)) for n in range(5)]
    batch = bytearray(stored(0, records))
    at = data.draw(st.integers(HEADER.size, len(batch) - 1))
    batch[at] = data.draw(st.integers(0, 255))
    try:
        found = decoded_columns([memoryview(bytes(batch))] * 2)
    except CorruptBatchError:
        return
    found.values.validate(full=True)
    found.keys.validate(full=True)
    assert len(found) == 10


def test_length_past_the_end_of_a_record_is_refused_with_the_offsets() -> None:
    batch = bytearray(stored(40, of(100, 100, 100)))
    first = HEADER.size
    batch[first + 6] = 0x7F  # the second byte of the first value's length
    with pytest.raises(CorruptBatchError, match="offsets 40 to 40 cannot be read"):
        decoded_columns([memoryview(bytes(batch))])
