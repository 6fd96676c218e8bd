"""Columns are taken as they come: bytes, text, Arrow's, with headers in lists or as bytes."""

import pyarrow as pa
import pytest

from fencepost.kafka.codec.compress import NONE, Codec
from fencepost.kafka.codec.encode import Rows, encode_batch
from fencepost.kafka.codec.encode_rows import rows
from fencepost.record import HeaderColumn, Repeated, Runs, Utf8Column
from support.slow_batch import PlainRecord, slow_body

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
