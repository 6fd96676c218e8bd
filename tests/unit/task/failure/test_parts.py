"""How a batch is divided in which something is unusual."""

from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import UnavailableError
from fencepost.task.failure.parts import MISSES, PART, in_parts

Span = tuple[str, int, int]


def divided(count: int, unusual: set[int], *, is_divided: bool = True) -> list[Span]:
    """Return the parts of a batch in the order of their results, each with the way in which it was processed."""

    def columns(start: int, stop: int) -> Span | None:
        return None if unusual & set(range(start, stop)) else ("columns", start, stop)

    return in_parts(count, columns, lambda start, stop: ("records", start, stop), is_divided=is_divided)


def test_one_unusual_record_makes_one_part_slow() -> None:
    found = divided(20 * PART, {5 * PART + 7})
    assert len(found) == 20
    assert [span for span in found if span[0] == "records"] == [("records", 5 * PART, 6 * PART)]


def test_parts_are_not_tried_any_longer_when_some_in_a_row_were_unusual() -> None:
    found = divided(100 * PART, set(range(0, 100 * PART, PART)))
    assert len(found) == MISSES + 1
    assert found[-1] == ("records", MISSES * PART, 100 * PART)


def test_a_batch_that_cannot_be_columns_in_parts_is_not_divided() -> None:
    assert divided(20 * PART, {1}, is_divided=False) == [("records", 0, 20 * PART)]
    assert divided(PART, set()) == [("records", 0, PART)]
    assert divided(0, set()) == []


@given(st.integers(0, 12 * PART), st.sets(st.integers(0, 12 * PART), max_size=8))
def test_parts_are_the_whole_batch_in_order(count: int, unusual: set[int]) -> None:
    ends = [0]
    for way, start, stop in divided(count, unusual):
        assert start == ends[-1] < stop
        assert way == "records" or not unusual & set(range(start, stop))
        ends.append(stop)
    assert ends[-1] == count


def test_what_is_away_is_waited_for_with_one_record_and_no_columns_are_tried_before() -> None:
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
    assert ways == ["columns", "records", "columns", "columns", "columns"]
    assert [(start, stop) for _, start, stop in found] == [(0, 1), (1, 251), (251, 501), (501, 750)]
