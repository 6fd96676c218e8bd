"""Columns are taken as they come: bytes, text, Arrow's, with headers in lists or as bytes."""

from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings

from fencepost.kafka.codec.columns import encode_columns, rows
from fencepost.kafka.codec.compress import NONE, Codec
from fencepost.kafka.codec.encode import Rows, encode_batch
from fencepost.record import HeaderColumn, Repeated, Runs, Utf8Column
from support.batch_records import drawn_records
from support.slow_batch import PlainRecord, slow_batch, slow_body

TEXTS = ["a", "", "ü", "many words"]
BYTES = [text.encode() for text in TEXTS]


def body(made: Rows) -> bytes:
    return b"".join(encode_batch(made, Codec(NONE)).body)


@pytest.mark.parametrize(
    "values",
    [
        BYTES,
        Utf8Column(BYTES),
        pa.array(BYTES, pa.binary()),
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(BYTES, pa.large_binary()),
        pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
        pa.array(["before", *TEXTS, "behind"]).slice(1, 4),
        pa.array(TEXTS).dictionary_encode(),
    ],
    ids=lambda values: str(getattr(values, "type", type(values).__name__)),
)
def test_values_may_be_held_in_any_column_of_bytes_or_text(values: object) -> None:
    assert body(rows(values, now_ms=5)) == slow_body([PlainRecord(None, value, 5) for value in BYTES])  # type: ignore[arg-type]


def test_record_without_a_timestamp_gets_the_current_time() -> None:
    made = rows(BYTES, now_ms=1_000, timestamps=[0, None, 2_000, -5])
    times = (0, 1_000, 2_000, -5)
    assert body(made) == slow_body([PlainRecord(None, value, at) for value, at in zip(BYTES, times, strict=True)])


def test_headers_may_be_lists_of_bytes_or_an_arrow_column() -> None:
    raw = [[("a", b"1"), ("b", None)], [], [("", b"")], [("a", b"2")]]
    entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
    lists = pa.array([[], *([{"key": k, "value": v} for k, v in row] or None for row in raw)], pa.list_(entry)).slice(1)
    expected = slow_body([PlainRecord(None, value, 5, tuple(row)) for value, row in zip(BYTES, raw, strict=True)])
    for headers in (raw, HeaderColumn(raw), lists):
        assert body(rows(BYTES, now_ms=5, headers=headers)) == expected


@pytest.mark.parametrize(
    "headers",
    [
        Repeated((("trace", b"1"), ("none", None)), 4),
        Runs([(("trace", b"1"),), (), (("trace", b"22"),)], [1, 2, 1]),
        Repeated((), 4),
    ],
    ids=["all", "in runs", "none"],
)
def test_shared_headers_are_encoded_like_separate_headers(headers: object) -> None:
    assert body(rows(BYTES, now_ms=5, headers=headers)) == body(rows(BYTES, now_ms=5, headers=[*headers]))  # type: ignore[misc, arg-type]


def test_columns_without_any_value_are_none() -> None:
    made = rows(BYTES, now_ms=5, keys=[None] * 4, headers=[()] * 4)
    assert made.keys is None
    assert made.headers is None


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
