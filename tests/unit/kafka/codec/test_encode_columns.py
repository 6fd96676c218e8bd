"""Columns go to the bytes of a batch in one step."""

from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings

from fencepost.kafka.codec.encode_columns import encode_columns
from support.batch_records import drawn_records
from support.slow_batch import PlainRecord, slow_batch


class Columns(NamedTuple):
    values: Any
    keys: Any = None
    timestamps: Any = 0
    headers: Any = None


def encoded(columns: Columns, compression: str = "none") -> tuple[bytes, int]:
    who = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 9}
    return encode_columns(columns, **who, transactional=True, compression=compression)


def slow(records: list[PlainRecord]) -> bytes:
    return slow_batch(records, producer_id=5, epoch=2, sequence=9, is_transactional=True)


@settings(max_examples=30)
@given(records=drawn_records(20))
def test_encoded_columns_equal_the_bytes_of_a_slow_encoder(records: list[PlainRecord]) -> None:
    values, keys = ([record[column] for record in records] for column in (1, 0))
    columns = Columns(
        pa.array(values, pa.large_binary()),
        pa.array(keys, pa.large_binary()),
        [record.timestamp for record in records],
        [record.headers for record in records],
    )
    assert encoded(columns) == (slow(records), len(records))


def test_single_timestamp_applies_to_all_records() -> None:
    values = pa.array([b"a", None, b"c"], pa.large_binary())
    expected = slow([PlainRecord(None, value, 77) for value in (None, b"c")])
    assert encoded(Columns(values[1:], timestamps=77)) == (expected, 2)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_batch_attributes_name_the_compression(compression: str) -> None:
    data, count = encoded(Columns([b"a" * 500] * 9), compression)
    assert count == 9
    assert ("none", "gzip", "snappy", "lz4", "zstd")[data[22] & 0x07] == compression
    assert len(data) < 500
