"""Percentiles by nearest rank, and numbers with the digits that count."""

import pytest
from bench.statistic import number, percentile, statistic


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50), (99, 99), (99.1, 100), (100, 100), (1, 1), (0, 1)], ids=str
)
def test_percentile_is_the_value_at_the_nearest_rank(percent: float, expected: int) -> None:
    values = list(range(100, 0, -1))
    assert percentile(values, percent) == expected


def test_percentile_of_one_value_is_that_value() -> None:
    assert {percentile([7.0], percent) for percent in (0, 50, 99, 100)} == {7.0}


def test_percentile_of_no_values_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_statistic_is_chosen_by_name() -> None:
    values = [4.0, 1.0, 3.0, 2.0]
    assert [statistic(name, values) for name in ("median", "min", "max", "p50", "p99")] == [2.5, 1.0, 4.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (748_312.4, "748,000"),
        (1_004.6, "1,000"),
        (1_061.0, "1,060"),
        (99.96, "100"),
        (39.87, "39.9"),
        (2.8849, "2.88"),
        (0.098_76, "0.0988"),
        (0.0, "0"),
        (-1_234.0, "-1,230"),
    ],
)
def test_bench_number_is_shown_with_three_significant_digits(value: float, written: str) -> None:
    assert number(value) == written
