"""Rows made column by column are, byte for byte, what orjson writes of each row."""

import base64
import datetime
import decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.spark.row.columns import json_rows

MOMENT = datetime.datetime(2026, 3, 1, 12, 30, 0, 123_456, datetime.UTC)
TIMES = [
    MOMENT.replace(year=year, microsecond=micros) for year in (1_000, 1_969, 2_026, 9_998) for micros in (0, 1, 120_000)
]
TEXTS = ("", "plain", "a\tb", 'say "x"', "back\\slash", "ü → 𝄞", "\x7f", "\x00", "</script>", "null", "x" * 300)
VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 0, 127],
    pa.int64(): [-(2**63), -1, 0, 2**63 - 1],
    pa.uint64(): [0, 2**64 - 1],
    pa.float32(): [0.1, -0.0, 1e38, float("nan")],
    pa.float64(): [0.1, 1e16, 1e-7, -0.0, 5e-324, float("nan"), float("inf"), -float("inf"), 123456789.125],
    pa.string(): list(TEXTS),
    pa.large_string(): ["plain", "many words", ""],
    pa.binary(): [b"", b"\x00\xff"],
    pa.decimal128(20, 4): [decimal.Decimal("-1.5000"), decimal.Decimal("1e15")],
    pa.date32(): [datetime.date(1970, 1, 1), datetime.date(1000, 1, 1), datetime.date(9999, 12, 31)],
    pa.date64(): [datetime.date(1, 1, 1), datetime.date(2026, 3, 1)],
    pa.time64("us"): [datetime.time(1, 2, 3, 4)],
    **{pa.timestamp("us", tz): TIMES for tz in (None, "UTC", "Etc/UTC", "Europe/Paris", "+02:00")},
    pa.timestamp("ms", "UTC"): [TIMES[0]],
    pa.duration("us"): [datetime.timedelta(seconds=1.5)],
    pa.list_(pa.string()): [[], ["a", None, 'q"', "\x7f"]],
    pa.struct([("a", pa.int32()), ("b", pa.string())]): [{"a": 1, "b": "x,y"}, {"a": None, "b": None}],
    pa.map_(pa.string(), pa.int32()): [[("k", 1), ("l", None)], []],
    pa.null(): [None],
}
NAMES = ("a", "b", 'q"uote', "ü", "", "n\n")


def expected(batch: pa.RecordBatch) -> list[bytes]:
    return [orjson.dumps(row, default=_known) for row in batch.to_pylist(maps_as_pydicts="lossy")]


def _known(value: object) -> object:
    if isinstance(value, decimal.Decimal):
        return orjson.Fragment(str(value))
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value.total_seconds()  # type: ignore[attr-defined]


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Draw a batch, which may be a part of a larger one."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=draw(st.booleans())))
    count = draw(st.integers(1, 12))
    columns = []
    for _ in names:
        kind = draw(st.sampled_from(list(VALUES)))
        known = [None, *VALUES[kind]] if draw(st.booleans()) else VALUES[kind]
        columns.append(pa.array(draw(st.lists(st.sampled_from(known), min_size=count, max_size=count)), kind))
    start = draw(st.integers(0, count))
    return pa.RecordBatch.from_arrays(columns, names=list(names)).slice(start)


@settings(max_examples=150)
@given(batch=batches())
def test_rows_are_byte_for_byte_the_output_of_orjson(batch: pa.RecordBatch) -> None:
    assert list(json_rows(batch)) == expected(batch)


@pytest.mark.parametrize("year", [1, 999])
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")])
def test_early_years_have_four_digits(kind: pa.DataType, year: int) -> None:
    batch = pa.record_batch({"time": pa.array([MOMENT.replace(year=year)], kind)})
    assert list(json_rows(batch)) == expected(batch)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")])
def test_years_outside_of_pythons_range_are_refused(kind: pa.DataType) -> None:
    days = pa.array([3_000_000], pa.int64())  # in the year 10183
    column = (
        days.cast(pa.int32()).cast(kind) if kind == pa.date32() else pa.array([3_000_000 * 86_400_000_000]).cast(kind)
    )
    with pytest.raises((OverflowError, ValueError)):
        json_rows(pa.record_batch({"time": column}))


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_escaped_as_json_requires(text: str) -> None:
    batch = pa.record_batch({"before": ["plain", "plain"], "text": ["plain", text]})
    assert list(json_rows(batch)) == expected(batch)


def test_text_that_is_not_utf_8_is_refused() -> None:
    broken = pa.array([b"ok", b"\xff\xfe"], pa.binary()).view(pa.string())
    with pytest.raises(UnicodeDecodeError):
        json_rows(pa.record_batch({"text": broken}))


def test_invalid_utf_8_outside_of_the_written_slice_is_ignored() -> None:
    broken = pa.array([b"\xff\xfe", b"ok"], pa.binary()).view(pa.string())
    assert list(json_rows(pa.record_batch({"text": broken}).slice(1))) == [b'{"text":"ok"}']


def test_rows_without_columns_are_empty_objects() -> None:
    assert list(json_rows(pa.record_batch({"a": [1, 2]}).select([]))) == [b"{}", b"{}"]
