"""Columns that cross the border between the languages, without a host."""

import struct
from array import array
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.builtin.java.client.crossing import Crossing, columns_of, polled_of
from fencepost.builtin.java.client.line import Message
from fencepost.builtin.java.port import Failure, Mark, Polled
from fencepost.record import (
    AppendTime,
    BinaryColumn,
    HeaderColumn,
    Repeated,
    Runs,
    SinkBatch,
    SourceRecord,
    TopicPartition,
)

_NOTHING = -(2**63)
_HEAD: dict[str, Any] = {
    "number": 4,
    "rows": 3,
    "topics": [["a", "b"], [0, 1, 0], [1, 1, 1]],
    "sources": [[{"p": 1}], [0], [3]],
    "ends": [[{"p": 1}, {"n": 7}]],
    "is_whole": True,
    "mark": "commit",
    "filtered": 2,
    "failures": [
        [1, "VALUE_CONVERTER", "E", "why", "org.example.C", None],
        [2, "TRANSFORMATION", "E", None, "T", "at"],
    ],
    "dropped": [{"n": 5}, None],
    "retries": 1,
}


def answered(**buffers: Any) -> Polled:
    views = {name.replace("_of_", "."): memoryview(bytes(buffer)) for name, buffer in buffers.items()}
    found = polled_of(Message({"result": _HEAD}, views), Crossing())
    assert found is not None
    return found


def test_a_poll_of_nothing_is_none() -> None:
    assert polled_of(Message({"result": None}, {}), Crossing()) is None


def test_poll_keeps_its_number_mark_failures_and_offsets() -> None:
    found = answered()
    assert (found.number, found.mark, found.processing.filtered, found.processing.retries) == (4, Mark.COMMIT, 2, 1)
    assert found.processing.failures == (
        Failure(1, "VALUE_CONVERTER", "E", "why", "org.example.C", None, {"n": 5}),
        Failure(2, "TRANSFORMATION", "E", None, "T", "at", None),
    )
    assert found.batch.last_offsets() == [({"p": 1}, None), ({"p": 1}, {"n": 7})]
    assert isinstance(found.batch.source_partitions, Repeated)
    assert isinstance(found.batch.topics, Runs)
    assert list(found.batch.topics) == ["a", "b", "a"]


def test_records_of_a_poll_have_offsets_when_the_host_sends_them() -> None:
    """And the batch has none of single records: it is committed as a whole."""
    records = [SourceRecord({}, None, "t", value) for value in "abc"]
    views = {name: memoryview(data) for name, data in Crossing().written(records)}
    for offsets in ([{"n": 1}, None, {"n": 3}], None):
        head = _HEAD if offsets is None else _HEAD | {"offsets": offsets}
        found = polled_of(Message({"result": head}, views), Crossing())
        assert found is not None
        assert [each.source_offset for each in found.batch.records()] == (offsets or [None] * 3)
        assert list(found.batch.source_offsets) == [None] * 3


def test_values_with_nulls_cross_as_columns() -> None:
    batch = answered(
        values_of_ends=array("i", [0, 1, 1, 4]), values_of_data=b"axyz", values_of_present=bytes([0b101])
    ).batch
    assert list(batch.values) == [b"a", None, b"xyz"]


def test_columns_missing_from_a_poll_have_no_values() -> None:
    batch = answered().batch
    assert list(batch.values) == [None] * 3
    assert (batch.keys, batch.headers, batch.timestamps, batch.kafka_partitions) == (None, None, None, None)


@pytest.mark.parametrize("stamps", [[1, 2, 3], [1, None, 3], [None, None, 4]])
def test_single_timestamps_of_a_poll_may_be_missing(stamps: list[int | None]) -> None:
    buffer = array("q", [_NOTHING if stamp is None else stamp for stamp in stamps])
    assert answered(timestamps=buffer).batch.timestamps == stamps


def test_equal_timestamps_become_one_repeated_value() -> None:
    found = answered(timestamps=array("q", [5, 5, 5])).batch.timestamps
    assert isinstance(found, Repeated)
    assert list(found) == [5, 5, 5]


def test_single_partitions_of_a_poll_may_be_missing() -> None:
    assert answered(partitions=array("i", [1, -1, 0])).batch.kafka_partitions == [1, None, 0]


_RAW = st.one_of(st.none(), st.binary(max_size=6))
_ROWS = st.lists(
    st.tuples(
        _RAW,
        _RAW,
        st.one_of(st.none(), st.integers(0, 2**62), st.integers(0, 9).map(AppendTime)),
        st.integers(0, 2),
        st.lists(st.tuples(st.text(max_size=3), _RAW), max_size=2),
        st.sampled_from("tu"),
    ),
    max_size=12,
)


@given(_ROWS, st.integers(0, 3), st.booleans())
def test_raw_records_are_written_as_java_reads_them(rows: list[Any], cut: int, is_arrow: bool) -> None:
    """Also columns that are slices, which do not begin where their buffers do."""
    rest = rows[cut:]
    keys, values = ([row[n] for row in rows] for n in (0, 1))
    head, buffers = columns_of(
        SinkBatch(
            [row[5] for row in rest],
            [row[3] for row in rest],
            range(len(rest)),
            BinaryColumn(pa.array(values, pa.binary())[cut:]) if is_arrow else values[cut:],
            Repeated(None, len(rest)),
            BinaryColumn(pa.array(keys, pa.binary())[cut:]) if is_arrow else keys[cut:],
            Repeated(None, len(rest)),
            [row[2] for row in rest],
            [TopicPartition("t", row[3]) for row in rest],
            HeaderColumn([row[4] for row in rest]),
        )
    )
    found = read_back(head, {name: bytes(memoryview(buffer)) for name, buffer in buffers})
    assert found == rest
    assert [type(row[2]) for row in found] == [type(row[2]) for row in rest]


def read_back(head: dict[str, Any], buffers: dict[str, bytes]) -> list[Any]:
    """Read a request as `SinkColumns` in the host does."""
    places = [(partition, topic) for _, partition, topic, count in head["places"] for _ in range(count)]
    found, header = [], 0
    for row in range(head["rows"]):
        (stamp,) = struct.unpack_from("<q", buffers["timestamps"], 8 * row)
        (count,) = struct.unpack_from("<i", buffers["header_counts"], 4 * row)
        names = range(header, header + count)
        headers = [(head["header_names"][n], value(buffers, "headers", n)) for n in names]
        header += count
        key, content = value(buffers, "keys", row), value(buffers, "values", row)
        time = AppendTime(stamp) if buffers.get("appended", bytes(100))[row] else stamp
        partition, topic = places[row]
        found.append((key, content, None if stamp == _NOTHING else time, partition, headers, topic))
    return found


def value(buffers: dict[str, bytes], name: str, row: int) -> bytes | None:
    present = buffers.get(f"{name}.present")
    if f"{name}.ends" not in buffers or (present is not None and not present[row >> 3] >> (row & 7) & 1):
        return None
    start, end = struct.unpack_from("<ii", buffers[f"{name}.ends"], 4 * row)
    return buffers[f"{name}.data"][start:end]
