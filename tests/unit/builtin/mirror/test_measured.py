"""The metrics of a mirror: what is counted, and when."""

import pytest

from fencepost.builtin.mirror import metric
from fencepost.builtin.mirror.metric import KINDS, MeasuredCheckpoints, MeasuredRecords, Spread
from fencepost.builtin.mirror.setting.mirror_settings import DefaultReplicationPolicy
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GapKind, LogGap
from fencepost.record import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
POLICY = DefaultReplicationPolicy({})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds that it is now, in a list."""
    now = [10.0]
    monkeypatch.setattr(metric.time, "time", lambda: now[0])
    return now


def fetched(first: int, timestamps: list[int | None]) -> Fetched:
    count = len(timestamps)
    values = [b"abc", None, *[b"x"] * count][:count]
    return Fetched([A] * count, list(range(first, first + count)), timestamps, [None] * count, values)


def rows(records: MeasuredRecords) -> dict[tuple[object, ...], list[float]]:
    return {tuple(row[:4]): list(row[4:]) for row in records.rows("A", "B", POLICY)["source"]}


def test_records_count_when_they_are_committed(clock: list[float]) -> None:
    records = MeasuredRecords()
    records.read([A], [3], fetched(5, [9_000, 8_000, 9_500]))
    assert rows(records) == {("A", "B", "A.t", "0"): [0, 0, 500, 2_000, 500, pytest.approx(7_000 / 6), 0, 0, 0, 0]}
    records.flushed([(A, 6)])  # not to the end of what was read at once
    records.committed()
    assert rows(records)["A", "B", "A.t", "0"][0] == 0
    records.flushed([(A, 7)])
    clock[0] = 11.0
    records.committed()
    found = rows(records)["A", "B", "A.t", "0"]
    assert found == [3, 4, 500, 2_000, 500, pytest.approx(7_000 / 6), 1_500, 3_000, 1_500, pytest.approx(13_000 / 6)]
    records.committed()
    assert rows(records)["A", "B", "A.t", "0"] == found


def test_each_partition_of_a_poll_is_measured_by_itself(clock: list[float]) -> None:
    records = MeasuredRecords()
    records.read([A, B], [1, 1], Fetched([A, B], [4, 9], [9_000, None], [None] * 2, [b"a", b"bb"]))
    records.flushed([(A, 4), (B, 9)])
    records.committed()
    assert {labels[3]: found[:3] for labels, found in rows(records).items()} == {"0": [1, 1, 1_000], "1": [1, 2, 0]}


def test_ages_of_many_records_are_sampled_and_all_records_are_counted(clock: list[float]) -> None:
    records = MeasuredRecords()
    records.read([A], [1_001], fetched(0, [9_000] * 1_001))
    records.flushed([(A, 1_000)])
    records.committed()
    found = rows(records)["A", "B", "A.t", "0"]
    assert found[:3] == [1_001, 3 + 999, 1_000]


def test_uncommitted_records_use_bounded_memory_in_metrics(clock: list[float]) -> None:
    records = MeasuredRecords()
    for n in range(2_000):
        records.read([A], [1], fetched(n, [9_000]))
    records.flushed([(A, 2_000)])
    records.committed()
    assert rows(records)["A", "B", "A.t", "0"][0] == 1_000


def test_gaps_are_counted_with_the_offsets_that_are_known_to_be_left_out() -> None:
    records = MeasuredRecords()
    records.skipped(LogGap(A, GapKind.TRUNCATED, 4, 24, 30))
    records.skipped(LogGap(A, GapKind.RECREATED, 30, 0, 5))
    assert records.rows("A", "B", POLICY)["gap"] == [("A", "B", "A.t", "0", 2, 20)]


def test_checkpoints_are_measured_until_they_are_committed(clock: list[float]) -> None:
    checkpoints = MeasuredCheckpoints()
    checkpoints.made([("g", A)])
    clock[0] = 10.25
    checkpoints.committed()
    checkpoints.committed()
    assert checkpoints.rows("A", "B") == {"checkpoint": [("A", "B", "g", "t", "0", 250.0, 250.0, 250.0, 250.0)]}


def test_metric_rows_have_a_value_for_each_name() -> None:
    records, checkpoints = MeasuredRecords(), MeasuredCheckpoints()
    records.read([A], [1], fetched(0, [0]))
    records.skipped(LogGap(A, GapKind.CUT, 4, 0, 1))
    checkpoints.made([("g", A)])
    checkpoints.committed()
    given = {**records.rows("A", "B", POLICY), **checkpoints.rows("A", "B")}
    assert given.keys() == KINDS.keys()
    for name, kind in KINDS.items():
        assert [len(row) for row in given[name]] == [len(kind.labels) + len(kind.values)]


def test_spread_of_no_values_is_zero() -> None:
    assert Spread().values() == (0.0, 0.0, 0.0, 0.0)
