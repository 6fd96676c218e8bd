"""A broker's batch gets another producer's header only when it is what its own producer wrote, and whole."""

import struct

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.kafka.codec.compress import NAMES, Codec
from fencepost.kafka.codec.encode import encode_batch
from fencepost.kafka.codec.encode_header import BatchProducer, CorruptBatchError, LooseBatchError, taken_batch
from support.batch_records import drawn_records, rows_of
from support.slow_batch import PlainRecord, slow_batch

SOURCE, TARGET = BatchProducer(1, 2), BatchProducer(77, 5, is_transactional=True)
RECORDS = [PlainRecord(b"k%d" % index, b"v" * 50, 1_000 + index) for index in range(50)]


def stored(codec: str = "none", base: int = 1_000, records: list[PlainRecord] = RECORDS) -> bytearray:
    """Return a batch as a broker has it: with an offset and the epoch of its leader, which no checksum covers."""
    batch = bytearray(b"".join(encode_batch(rows_of(records), Codec(codec)).stamped(SOURCE, 3)))
    struct.pack_into(">q", batch, 0, base)
    struct.pack_into(">i", batch, 12, 42)
    return batch


def changed(batch: bytearray, at: int, kind: str, value: int) -> bytes:
    """Change a field of the header and make the checksum right again."""
    struct.pack_into(kind, batch, at, value)
    struct.pack_into(">I", batch, 17, google_crc32c.value(bytes(batch[21:])))
    return bytes(batch)


def with_attributes(batch: bytearray, more: int) -> bytes:
    return changed(batch, 21, ">h", struct.unpack_from(">h", batch, 21)[0] | more)


@pytest.mark.parametrize("codec", NAMES)
def test_restamped_batch_equals_a_batch_of_the_target_producer(codec: str) -> None:
    expected = b"".join(encode_batch(rows_of(RECORDS), Codec(codec)).stamped(TARGET, 9))
    assert b"".join(taken_batch(stored(codec)).stamped(TARGET, 9)) == expected


@settings(max_examples=30)
@given(records=drawn_records(20))
def test_restamped_batch_equals_that_of_a_slow_encoder(records: list[PlainRecord]) -> None:
    expected = slow_batch(records, producer_id=77, epoch=5, sequence=9, is_transactional=True)
    assert b"".join(taken_batch(stored(records=records)).stamped(TARGET, 9)) == expected


@given(bit=st.integers(0, (len(stored()) - 17) * 8 - 1))
def test_batch_with_a_changed_bit_is_refused(bit: int) -> None:
    batch = stored()
    batch[17 + bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptBatchError, match="offset 1000"):
        taken_batch(batch)


@pytest.mark.parametrize("size", [0, 60, 61, 200])
def test_truncated_batch_is_refused(size: int) -> None:
    with pytest.raises(CorruptBatchError):
        taken_batch(stored()[:size])


def test_compacted_batch_must_be_encoded_again() -> None:
    with pytest.raises(LooseBatchError, match="50 records for 60 offsets"):
        taken_batch(changed(stored(), 23, ">i", 59))


def test_transaction_marker_must_be_left_out() -> None:
    with pytest.raises(LooseBatchError, match="marker"):
        taken_batch(with_attributes(stored(), 0x20))


def test_batch_of_an_older_format_must_be_encoded_again() -> None:
    batch = stored()
    batch[16] = 1
    with pytest.raises(LooseBatchError, match="version 1"):
        taken_batch(batch)


def test_delete_horizon_flag_of_compaction_is_not_copied() -> None:
    noted = with_attributes(stored("zstd"), 0x40)
    assert b"".join(taken_batch(noted).stamped(TARGET, 9)) == b"".join(taken_batch(stored("zstd")).stamped(TARGET, 9))


def test_batch_with_log_append_times_must_be_encoded_again() -> None:
    with pytest.raises(LooseBatchError, match="log append times"):
        taken_batch(with_attributes(stored(), 0x08))
