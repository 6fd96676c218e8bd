"""How a batch is divided in which something is unusual."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import UnavailableError
from fencepost.task.conversion.columns import MISSES, PART, in_parts

Span = tuple[str, int, int]


def divided(count: int, unusual: set[int], *, is_divided: bool = True) -> list[Span]:
    """Return the parts of a batch in the order of their results, each with the way in which it was processed."""

    def columns(start: int, stop: int) -> Span | None:
        return None if unusual & set(range(start, stop)) else ("columns", start, stop)

    return in_parts(count, columns, lambda start, stop: ("records", start, stop), is_divided=is_divided)


def singly(found: list[Span]) -> list[int]:
    """Return the records that were not processed as columns."""
    return [index for way, start, stop in found if way == "records" for index in range(start, stop)]


@pytest.mark.parametrize("count", [2, 9, PART, PART + 1, 20 * PART])
def test_an_unusual_record_is_processed_alone(count: int) -> None:
    for bad in {0, 1, count // 3, count - 1}:
        assert singly(divided(count, {bad})) == [bad]


def test_part_with_one_unusual_record_is_processed_about_twice_more() -> None:
    tried = []

    def columns(start: int, stop: int) -> Span | None:
        tried.append(stop - start)
        return None if start <= 7 < stop else ("columns", start, stop)

    in_parts(PART, columns, lambda start, stop: ("records", start, stop), is_divided=True)
    assert sum(tried) <= 2 * PART
    assert len(tried) <= 2 * PART.bit_length()


def test_unusual_records_of_several_parts_are_processed_alone() -> None:
    bad = set(range(7, 100 * PART, PART // 2))
    assert singly(divided(100 * PART, bad)) == sorted(bad)


def test_part_with_many_unusual_records_is_not_halved_completely() -> None:
    found = divided(3 * PART, set(range(PART, 2 * PART)))
    assert singly(found) == list(range(PART, 2 * PART))
    assert len([span for span in found if span[0] == "records"]) <= 4 * MISSES


def test_parts_are_no_longer_tried_as_columns_after_several_misses_in_a_row() -> None:
    found = divided(100 * PART, set(range(100 * PART)))
    assert found[-1] == ("records", MISSES * PART, 100 * PART)


def test_halving_of_parts_resumes_after_a_part_without_unusual_records() -> None:
    assert singly(divided(4 * PART, {*range(PART), 3 * PART + 5})) == [*range(PART), 3 * PART + 5]


def test_a_batch_that_cannot_be_columns_in_parts_is_not_divided() -> None:
    assert divided(20 * PART, {1}, is_divided=False) == [("records", 0, 20 * PART)]
    assert divided(1, {0}) == [("records", 0, 1)]
    assert divided(0, set()) == []


@given(st.integers(0, 12 * PART), st.sets(st.integers(0, 12 * PART), max_size=8))
def test_parts_cover_the_whole_batch_in_order(count: int, unusual: set[int]) -> None:
    ends = [0]
    for way, start, stop in divided(count, unusual):
        assert start == ends[-1] < stop
        assert way == "records" or not unusual & set(range(start, stop))
        ends.append(stop)
    assert ends[-1] == count


def test_absent_service_is_awaited_with_one_record_before_columns_are_retried() -> None:
    ways: list[str] = []
    is_away = [True]

    def columns(start: int, stop: int) -> Span:
        ways.append("columns")
        if is_away[0]:
            raise UnavailableError("closed")
        return ("columns", start, stop)

    def one_by_one(start: int, stop: int) -> Span:
        ways.append("records")
        is_away[0] = False
        return ("records", start, stop)

    found = in_parts(3 * PART, columns, one_by_one, is_divided=True, is_away=True)
    assert ways == ["records", "columns", "columns", "columns"]
    assert found[:2] == [("records", 0, 1), ("columns", 1, PART + 1)]
    assert found[-1][2] == 3 * PART

    is_away[0] = True
    ways.clear()
    found = in_parts(3 * PART, columns, one_by_one, is_divided=True)
    assert ways[:3] == ["columns", "records", "columns"]
    assert ways.count("records") == 1
    assert (found[0], found[-1][2]) == (("records", 0, 1), 3 * PART)


def test_half_that_needs_an_absent_service_waits_with_one_record() -> None:
    ways: list[tuple[str, int, int]] = []
    away = [True]

    def columns(start: int, stop: int) -> Span | None:
        ways.append(("columns", start, stop))
        if start <= 7 < stop:
            return None
        if away[0] and start > 7:
            raise UnavailableError("closed")
        return ("columns", start, stop)

    def one_by_one(start: int, stop: int) -> Span:
        ways.append(("records", start, stop))
        away[0] = away[0] and stop <= 8
        return ("records", start, stop)

    found = in_parts(16, columns, one_by_one, is_divided=True)
    assert ways == [
        *[("columns", 0, 8), ("columns", 0, 4), ("columns", 4, 6), ("columns", 6, 7), ("records", 7, 8)],
        *[("columns", 8, 16), ("records", 8, 9), ("columns", 9, 13), ("columns", 13, 15), ("columns", 15, 16)],
    ]
    assert found == [way for way in ways if way not in (("columns", 0, 8), ("columns", 8, 16))]


@pytest.mark.parametrize("last", [1, 100, PART - 1, PART, 3 * PART])
def test_service_absent_for_a_later_record_is_tried_only_a_few_times_first(last: int) -> None:
    """The schemas of the others are known. Each try may take a minute, in which the task cannot be stopped."""
    tries, waited = [0], [0]

    def columns(start: int, stop: int) -> Span:
        if start <= last < stop and not waited[0]:
            tries[0] += 1
            raise UnavailableError("silent")
        return ("columns", start, stop)

    def one_by_one(start: int, stop: int) -> Span:
        waited[0] += start <= last < stop
        return ("records", start, stop)

    ends = [0]
    for _, start, stop in in_parts(4 * PART, columns, one_by_one, is_divided=True, is_away=True):
        assert start == ends[-1] < stop
        ends.append(stop)
    assert (ends[-1], waited[0]) == (4 * PART, 1)
    assert tries[0] <= PART.bit_length() + 1
