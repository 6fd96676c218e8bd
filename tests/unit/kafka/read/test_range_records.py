"""Of batches as a broker may send them exactly what lies in the range, as columns."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.codec.committed import Answered, Position, committed_batches
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.read import range_input
from fencepost.kafka.read.fetched_queue import UnreadBatch, UnreadFetched
from fencepost.kafka.read.range_input import RangeInput
from fencepost.kafka.read.record_columns import ALL, schema
from fencepost.kafka.value.position import LogRange
from fencepost.record import BinaryColumn, TopicPartition
from support.batch_records import DrawnBatch, drawn_batch
from support.old_messages import APPEND_MS, CODECS, old_log
from support.slow_batch import Kept, PlainRecord, kept_batch

PLACE = TopicPartition("t", 3)
_LOG_APPEND_TIME = 0x08
_MOST_MS = ((1 << 63) - 1) // 1_000  # that a column of microseconds holds


def refuse(*_: Any) -> Any:
    raise CorruptBatchError("too large to be decoded together")


def rows_of_range(log: bytes, start: int, end: int) -> list[dict[str, Any]]:
    """Return what is read of a range; times are microseconds."""
    sent, position = committed_batches(Answered(memoryview(log)), Position(start))
    fetched = UnreadFetched([(PLACE, UnreadBatch(each, start)) for each in sent])
    fetched.ends = {PLACE: position.offset}
    made = RangeInput({}, LogRange(PLACE, start, end), columns=schema(ALL))._batches(fetched)
    at = ALL.index("timestamp")
    return [row for each in made for row in each.set_column(at, "timestamp", each[at].cast(pa.int64())).to_pylist()]


def rows_of(base: int, drawn: DrawnBatch) -> list[dict[str, Any]]:
    kept, _, newest, attributes = drawn
    is_append_time = bool(attributes & _LOG_APPEND_TIME)
    rows = []
    for further, record in kept:
        time_ms = newest if is_append_time else record.timestamp
        rows.append(
            {
                "key": record.key,
                "value": record.value,
                "topic": PLACE.topic,
                "partition": PLACE.partition,
                "offset": base + further,
                "timestamp": time_ms * 1_000 if abs(time_ms) <= _MOST_MS else None,
                "timestampType": int(is_append_time),
                "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
            }
        )
    return rows


@given(data=st.data(), drawn=st.lists(drawn_batch(), min_size=1, max_size=3), base=st.sampled_from((0, 2**31, 2**61)))
def test_range_yields_exactly_the_records_within_its_bounds(
    data: st.DataObject, drawn: list[DrawnBatch], base: int
) -> None:
    log, rows, borders = b"", [], {base}
    for each in drawn:
        log += kept_batch(base, each.kept, each.first, newest=each.newest, attributes=each.attributes)
        rows += rows_of(base, each)
        base += each.kept[-1].further + 1
        borders |= {base, *(row["offset"] + n for row in rows for n in (0, 1))}
    start, end = sorted(data.draw(st.tuples(*[st.sampled_from(sorted(borders))] * 2)))
    expected = [row for row in rows if start <= row["offset"] < max(end, start + 1)]
    assert rows_of_range(log, start, max(end, start + 1)) == expected
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(range_input, "decoded_columns", refuse)
        found = rows_of_range(log, start, max(end, start + 1))
    assert typeless(found) == typeless(expected)


def typeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without the types of timestamps of -1, which portions of records lack."""
    return [row | {"timestampType": None} if row["timestamp"] == -1_000 else row for row in rows]


@pytest.mark.parametrize("is_appended", [False, True], ids=["created", "appended"])
@pytest.mark.parametrize("codec", CODECS)
def test_old_messages_of_a_range_are_read_from_every_codec(codec: str, is_appended: bool) -> None:
    found = rows_of_range(old_log(10, 6, 1, codec, is_appended=is_appended), 12, 15)
    times = [APPEND_MS] * 3 if is_appended else [1_002, 1_003, 1_004]
    assert [(row["offset"], row["value"], row["timestamp"] // 1_000) for row in found] == [
        (10 + n, b"v%d" % n, time) for n, time in zip((2, 3, 4), times, strict=True)
    ]
    assert {row["timestampType"] for row in found} == {int(is_appended)}


def test_portions_are_not_put_together_in_one_column_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they may hold more than a column does: that is why they were decoded in portions."""
    monkeypatch.setattr(range_input, "decoded_columns", refuse)
    monkeypatch.setattr(BinaryColumn, "joined", refuse)
    records = [Kept(n, PlainRecord(None, b"%d" % n, 5)) for n in range(3)]
    log = old_log(0, 3, 1, "gzip") + kept_batch(3, records, 5) + old_log(6, 3, 1, "gzip")
    found = [row["value"] for row in rows_of_range(log, 0, 9)]
    assert found == [b"v0", b"v1", b"v2", b"0", b"1", b"2", b"v0", b"v1", b"v2"]
