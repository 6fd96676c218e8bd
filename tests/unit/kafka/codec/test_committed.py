"""From the bytes of an answer to batches that are copied."""

import struct

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecordsBuilder

from fencepost.kafka.codec.committed import Answered, Position, committed_batches, copied
from fencepost.kafka.codec.compress import NAMES, Codec
from fencepost.kafka.codec.decode import decoded
from fencepost.kafka.codec.encode import encode_batch
from fencepost.kafka.codec.encode_header import BatchProducer, CorruptBatchError
from support.batch_records import drawn_records, rows_of
from support.slow_batch import PlainRecord

RECORDS = [PlainRecord(b"k%d" % n, b"v" * 50, 1_000 + n, (("h", None),)) for n in range(20)]
_EPOCH_AT, _CONTROL = 12, 0x20
_ABORT, _COMMIT = b"\0\0\0\0", b"\0\0\0\1"
_NOW = 77


def stored(base: int, records: list[PlainRecord] = RECORDS, producer: int = -1, codec: str = "none") -> bytes:
    """Return a batch as a broker has it; one with a producer is of a transaction."""
    made = BatchProducer(producer, 0, is_transactional=producer >= 0)
    batch = bytearray(b"".join(encode_batch(rows_of(records), Codec(codec)).stamped(made, 0)))
    struct.pack_into(">q", batch, 0, base)
    return bytes(batch)


def changed(batch: bytes, at: int, kind: str, value: int) -> bytes:
    """Change a field of the header and make the checksum right again."""
    made = bytearray(batch)
    struct.pack_into(kind, made, at, value)
    struct.pack_into(">I", made, 17, google_crc32c.value(bytes(made[21:])))
    return bytes(made)


def marker(base: int, producer: int, kind: bytes) -> bytes:
    batch = stored(base, [PlainRecord(kind, b"", 1)], producer)
    return changed(batch, 21, ">h", struct.unpack_from(">h", batch, 21)[0] | _CONTROL)


def offsets(data: bytes, wanted: int = 0, stable: int = -1, aborted: tuple[tuple[int, int], ...] = ()) -> list[int]:
    batches, _ = committed_batches(Answered(memoryview(data), stable, aborted), Position(wanted))
    return [offset for copy in copied(batches, wanted, _NOW) for offset in copy.offsets]


def records(data: bytes, wanted: int = 0) -> list[PlainRecord]:
    """Return the records of what is written for an answer."""
    batches, _ = committed_batches(Answered(memoryview(data)), Position(wanted))
    found = []
    for copy in copied(batches, wanted, _NOW):
        assert len(copy.offsets) == copy.count
        written = b"".join(copy.batch.stamped(BatchProducer(9, 9, is_transactional=True), 0))
        found += [PlainRecord(each.key, each.value, each.timestamp or 0, each.headers) for each in decoded(written)]
    return found


def test_e22_aborted_records_are_dropped_from_their_first_offset_to_the_marker() -> None:
    log = b"".join([
        stored(0, producer=1),
        stored(20, producer=2),
        stored(40, producer=1),
        marker(60, 2, _COMMIT),
        marker(61, 1, _ABORT),
        stored(62, producer=1),
        marker(82, 1, _COMMIT),
        stored(83),
    ])  # fmt: skip
    assert offsets(log, aborted=((0, 1),)) == [*range(20, 40), *range(62, 82), *range(83, 103)]
    assert offsets(log, aborted=((40, 1),), wanted=5) == [*range(5, 40), *range(62, 82), *range(83, 103)]
    assert offsets(log, stable=83, aborted=((0, 1),)) == [*range(20, 40), *range(62, 82)]


def test_position_is_past_invisible_batches_with_the_epoch_of_the_last_batch() -> None:
    dropped, end = stored(0, producer=1), marker(20, 1, _ABORT)
    log = changed(dropped, _EPOCH_AT, ">i", 4) + changed(end, _EPOCH_AT, ">i", 5)
    wanted = Position(3, 2)
    assert committed_batches(Answered(memoryview(log), 21, [(0, 1)]), wanted) == ([], Position(21, 5))
    assert committed_batches(Answered(memoryview(log), 20, [(0, 1)]), wanted) == ([], Position(20, 4))
    assert committed_batches(Answered(memoryview(log), 19, [(0, 1)]), wanted) == ([], wanted)
    assert committed_batches(Answered(memoryview(log), 21, [(0, 1)]), Position(30, 6)) == ([], Position(30, 6))
    assert committed_batches(Answered(memoryview(b"")), wanted) == ([], wanted)


def test_batch_cut_off_at_the_end_of_an_answer_is_left_to_the_next_answer() -> None:
    log = stored(0) + stored(20)
    for cut in (1, 30, len(log) // 2 - 1):
        assert committed_batches(Answered(memoryview(log)[:-cut]), Position(0))[1].offset == 20


@pytest.mark.parametrize("stable", [-1, 120])
@pytest.mark.parametrize("is_aborted", [False, True])
def test_e22_batch_with_a_changed_bit_is_refused_even_if_aborted(is_aborted: bool, stable: int) -> None:
    """Of the first bytes no checksum is made: where they lie the offset, the length and the format stand."""
    log = stored(100, producer=1)
    for bit in range(17 * 8, len(log) * 8):
        changed = bytearray(log)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatchError, match=r"offsets? 100"):
            offsets(bytes(changed), stable=stable, aborted=((0, 1),) if is_aborted else ())


def test_e22_batches_before_a_damaged_batch_are_read_before_the_error() -> None:
    """A range may end before it."""
    damaged = bytearray(stored(20))
    damaged[100] ^= 1
    log = stored(0) + bytes(damaged) + stored(40)
    found, position = committed_batches(Answered(memoryview(log)), Position(3))
    assert ([sent.head.first for sent in found], position.offset) == ([0], 20)
    with pytest.raises(CorruptBatchError, match="offset 20"):
        committed_batches(Answered(memoryview(log)), position)


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_batch_with_an_unknown_format_version_is_refused(magic: int) -> None:
    log = bytearray(stored(100))
    log[16] = magic
    with pytest.raises(CorruptBatchError):
        offsets(bytes(log))


def test_answer_without_a_whole_batch_is_refused() -> None:
    """A broker cuts off the last batch, not the only one: the length is wrong, and would be so for ever."""
    log = stored(100)
    longer = log[:8] + (len(log)).to_bytes(4, "big") + log[12:]
    for damaged in (longer, longer[:30], longer[:10]):
        with pytest.raises(CorruptBatchError, match="no whole batch"):
            offsets(damaged)


def test_offsets_that_go_back_are_refused() -> None:
    with pytest.raises(CorruptBatchError, match="offsets 19 to 38 follows offset 19"):
        offsets(stored(0) + stored(19))


def test_batch_with_a_length_below_the_header_size_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="of 40 bytes is shorter"):
        offsets(changed(stored(0), 8, ">i", 28))


@pytest.mark.parametrize("codec", NAMES)
@settings(max_examples=15)
@given(drawn=drawn_records(30), start=st.integers(0, 29), has_gaps=st.booleans())
def test_batch_is_copied_whole_or_with_only_its_wanted_records(
    codec: str, drawn: list[PlainRecord], start: int, has_gaps: bool
) -> None:
    start %= len(drawn)
    log = stored(1_000, drawn, codec=codec)
    if has_gaps:
        log = changed(log, 23, ">i", len(drawn) + 3)  # the last offset, of a record that compaction has taken
    assert records(log, 1_000 + start) == drawn[start:]


def test_record_with_a_log_append_time_keeps_that_time() -> None:
    log = changed(stored(0), 21, ">h", 0x08)
    assert records(log) == [each._replace(timestamp=1_019) for each in RECORDS]


def test_small_batches_in_a_row_are_joined_and_a_single_one_is_copied_unchanged() -> None:
    small = [stored(n * 2, RECORDS[:2]) for n in range(6)]
    joined = copied(committed_batches(Answered(memoryview(b"".join(small))), Position(0))[0], 0, _NOW)
    assert [list(each.offsets) for each in joined] == [list(range(12))]
    assert records(b"".join(small)) == RECORDS[:2] * 6
    (alone,) = copied(committed_batches(Answered(memoryview(small[0])), Position(0))[0], 0, _NOW)
    assert bytes(alone.batch.body[0]) == small[0][61:]


def test_batch_emptied_by_compaction_is_skipped() -> None:
    empty = changed(stored(0)[:61], 57, ">i", 0)
    empty = changed(empty, 8, ">i", 49)
    assert committed_batches(Answered(memoryview(empty + stored(20))), Position(0))[1].offset == 40
    assert offsets(empty + stored(20)) == list(range(20, 40))
    assert offsets(changed(empty, 21, ">h", 0x30)) == []


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_messages_of_formats_before_transactions_are_rebuilt(magic: int, codec: int) -> None:
    builder = MemoryRecordsBuilder(magic, codec, 100_000)
    for n in range(12):
        builder.append(1_000 + n if magic else None, b"k", b"v%d" % n)
    builder.close()
    found = records(builder.buffer())
    assert [each.value for each in found] == [b"v%d" % n for n in range(12)]
    assert [each.timestamp for each in found] == ([1_000 + n for n in range(12)] if magic else [_NOW] * 12)
