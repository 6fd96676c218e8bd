"""The parts of what Java's `poll` returned become one batch, whatever columns a part has."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from fencepost.builtin.java.port import Mark, Polled
from fencepost.builtin.java.source_task import joined, whole_poll
from fencepost.record import Batch, BinaryColumn, HeaderColumn, Repeated, Runs
from support.java_host import polled


def column(*values: bytes | None) -> BinaryColumn:
    return BinaryColumn(pa.array(values, pa.binary()))


def part(values: BinaryColumn, topics: Any, at: int, **more: Any) -> Batch:
    count = len(values)
    return Batch(
        topics, values, Repeated({"f": at}, count), Repeated(None, count), ends=[({"f": at}, {"at": at})], **more
    )


def test_records_of_all_parts_of_a_poll_are_joined_in_order() -> None:
    parts = [
        part(column(b"a", None), Repeated("t", 2), 1, keys=column(b"k", None), timestamps=Repeated(7, 2)),
        part(column(), Runs([], []), 1),
        part(BinaryColumn.without_values(2), Runs(["u", "t"], [1, 1]), 2, kafka_partitions=[None, 4]),
        part(column(b"d"), Repeated("u", 1), 1, headers=HeaderColumn([[("h", b"1"), ("h", None)]]), timestamps=[None]),
    ]
    whole = joined(parts)
    assert len(whole) == 5
    rows = [(r.topic, r.key, r.value, r.kafka_partition, r.timestamp) for r in whole.records()]
    assert rows == [
        ("t", b"k", b"a", None, 7), ("t", None, None, None, 7),
        ("u", None, None, None, None), ("t", None, None, 4, None), ("u", None, b"d", None, None),
    ]  # fmt: skip
    assert [[(header.key, header.value) for header in r.headers] for r in whole.records()] == [
        [], [], [], [], [("h", b"1"), ("h", None)],
    ]  # fmt: skip
    assert list(whole.source_partitions) == [{"f": 1}, {"f": 1}, {"f": 2}, {"f": 2}, {"f": 1}]
    assert whole.ends == [({"f": 1}, {"at": 1}), ({"f": 2}, {"at": 2})]


def test_columns_missing_from_all_parts_of_a_poll_are_none() -> None:
    whole = joined([part(column(b"a"), Repeated("t", 1), 1), part(column(b"b"), Repeated("t", 1), 9)])
    assert (whole.keys, whole.headers, whole.timestamps, whole.kafka_partitions) == (None, None, None, None)


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ([polled(0, [b"a"], 1)], 1),
        ([polled(0, [b"a"], 1, is_whole=False), polled(1, [b"b"], 2)], 2),
        ([polled(0, [b"a"], 1, is_whole=False), polled(1, [b"b"], 2, Mark.ABORT, is_whole=False)], 2),
        ([None], 0),
    ],
)
def test_a_poll_ends_with_its_last_part_or_at_a_mark(sent: list[Polled | None], taken: int) -> None:
    answers: Iterator[Polled | None] = iter(sent)
    assert len(whole_poll(lambda: next(answers))) == taken
    assert list(answers) == []
