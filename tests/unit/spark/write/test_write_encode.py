"""Which batches a task's rows become."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api import FatalError
from fencepost.kafka.codec.compress import NAMES
from fencepost.kafka.codec.decode import DecodedRecord, records_of
from fencepost.kafka.wire.requests import Target
from fencepost.record import TopicPartition
from fencepost.spark.row.columns import RecordMaker
from fencepost.spark.write.encode import Encoder, RowTooLargeError
from support.partitioner import partition_for

FOUR = Target("id", 4, 1_000_000)


def encoder(names: list[str], topic: str | None = "t", **conf: Any) -> Encoder:
    named = {key.replace("_", "."): value for key, value in conf.items()}
    return Encoder(RecordMaker(names, topic), lambda _: FOUR, named, first=1)


def records(made: Encoder, *frames: dict[str, Any]) -> dict[TopicPartition, list[DecodedRecord]]:
    found: dict[TopicPartition, list[DecodedRecord]] = {}
    for place, batch in made.encoded(map(_frame, frames)):
        found.setdefault(place, []).extend(records_of(batch))
    return found


def _frame(columns: dict[str, Any]) -> Any:
    return pa.record_batch({name: _column(name, values) for name, values in columns.items()})


def _column(name: str, values: list[Any]) -> Any:
    if name == "headers":
        return pa.array(values, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    return pa.array(values, pa.timestamp("us", "UTC") if name == "timestamp" else None)


def values(found: list[DecodedRecord]) -> list[bytes | None]:
    return [each.value for each in found]


def test_keys_choose_partitions_as_javas_client_does_and_keep_their_order() -> None:
    keys = [f"key-{n % 9}" for n in range(300)]
    frames = [
        {"key": keys[start : start + 50], "value": [str(n) for n in range(start, start + 50)]}
        for start in range(0, 300, 50)
    ]
    found = records(encoder(["key", "value"]), *frames)
    for (_, partition), own in found.items():
        expected = [str(n).encode() for n in range(300) if partition_for(keys[n].encode(), 4) == partition]
        assert values(own) == expected


def test_columns_choose_topic_partition_timestamp_and_headers() -> None:
    names = ["topic", "partition", "value", "timestamp", "headers"]
    found = records(
        encoder(names, None),
        {
            "topic": ["a", "b", "a"],
            "partition": [3, 0, None],
            "value": ["1", "2", "3"],
            "timestamp": [1_700_000_000_123_456, None, 5_000],
            "headers": [[{"key": "h", "value": b"x"}], None, []],
        },
    )
    assert [(place, values(own)) for place, own in sorted(found.items())] == [
        (TopicPartition("a", 1), [b"3"]),
        (TopicPartition("a", 3), [b"1"]),
        (TopicPartition("b", 0), [b"2"]),
    ]
    (first,) = found[TopicPartition("a", 3)]
    assert (first.timestamp, list(first.headers)) == (1_700_000_000_123, [("h", b"x")])
    assert found[TopicPartition("a", 1)][0].timestamp == 5
    assert found[TopicPartition("b", 0)][0].timestamp > 1_700_000_000_123


def test_rows_without_a_key_fill_batches_of_one_partition_after_another() -> None:
    frames = [{"value": ["x" * 100] * 500} for _ in range(10)]
    made = [*encoder(["value"], batch_size=20_000).encoded(map(_frame, frames))]
    assert sum(batch.count for _, batch in made) == 5_000
    assert all(len(batch) <= 20_000 for _, batch in made)
    assert {place.partition for place, _ in made} == {0, 1, 2, 3}
    assert len(made) < 40


def test_pieces_with_and_without_keys_and_headers_make_one_batch() -> None:
    frames: list[dict[str, Any]] = [
        {"partition": [2], "key": [None], "value": ["1"], "headers": [None]},
        {"partition": [2], "key": ["k"], "value": ["2"], "headers": [[{"key": "h", "value": None}]]},
    ]
    (batch,) = [batch for _, batch in encoder(["partition", "key", "value", "headers"]).encoded(map(_frame, frames))]
    found = records_of(batch)
    assert [(each.key, each.value, list(each.headers)) for each in found] == [
        (None, b"1", []),
        (b"k", b"2", [("h", None)]),
    ]


def test_batches_are_compressed_by_the_producers_setting() -> None:
    made = encoder(["value"], compression_type="zstd").encoded(iter([_frame({"value": ["x" * 100] * 100})]))
    assert [(NAMES[batch.codec], batch.count) for _, batch in made] == [("zstd", 100)]


@pytest.mark.parametrize("partition", [4, -1])
def test_partition_that_the_topic_lacks_is_refused_by_name(partition: int) -> None:
    with pytest.raises(FatalError, match=f"column partition has {partition}, and topic t has 4 partitions"):
        records(encoder(["partition", "value"]), {"partition": [0, partition], "value": ["1", "2"]})


def test_frame_without_value_is_written_as_json_objects() -> None:
    found = records(encoder(["id"]), {"id": [1, 2]})
    assert [values(own) for own in found.values()] == [[b'{"id":1}', b'{"id":2}']]


def test_task_without_rows_makes_no_batch() -> None:
    empty: Iterator[Any] = iter([])
    made = encoder(["value"])
    assert ([*made.encoded(empty)], made.rows, made.targets) == ([], 0, {})


@pytest.mark.parametrize(("key", "named"), [(b"k\xff", r"key b'k\\xff'"), (None, "no key")])
def test_row_above_the_limit_of_its_topic_is_named_before_it_is_sent(key: bytes | None, named: str) -> None:
    large = random.Random(7).randbytes(FOUR.most_bytes or 0)
    frame = {"key": [b"a", key], "value": [b"x", large], "partition": pa.array([1, 2], pa.int32()).to_pylist()}
    size = len(large) + len(key or b"")
    with pytest.raises(RowTooLargeError, match=rf"topic t, partition 2: the row with {named} has {size:,} bytes"):
        records(encoder(["key", "value", "partition"]), frame)


def test_row_that_compresses_below_the_limit_of_its_topic_is_written() -> None:
    large = bytes(3 * (FOUR.most_bytes or 0))
    found = records(encoder(["value"], compression_type="gzip"), {"value": [large]})
    assert [values(own) for own in found.values()] == [[large]]
