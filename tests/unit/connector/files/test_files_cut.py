"""How many rows a file may have."""

import pytest

from fencepost.connector.files.cut import FileCut


def test_without_a_limit_nothing_is_too_large_and_rows_are_cut_as_was_said() -> None:
    cut = FileCut(7, 0)
    assert not cut.is_too_large(1 << 40)
    cut.widen(1)
    assert cut.rows == 7


def test_what_is_too_large_has_as_many_rows_as_fit() -> None:
    cut = FileCut(0, 1_000)
    assert cut.rows == 0
    assert cut.is_too_large(1_001)
    assert not cut.is_too_large(1_000)
    cut.narrow(500, 10_000)
    assert cut.rows == 45  # and a tenth of room
    assert not cut.is_too_large(45 * 20)


def test_a_row_that_is_too_large_by_itself_stays_whole() -> None:
    cut = FileCut(0, 1_000)
    cut.narrow(1, 5_000)
    assert cut.rows == 1
    assert not cut.is_too_large(5_000)


@pytest.mark.parametrize(("rows_max", "rows"), [(0, 90), (60, 60)])
def test_where_rows_become_smaller_files_have_more_of_them(rows_max: int, rows: int) -> None:
    cut = FileCut(rows_max, 1_000)
    cut.narrow(10, 1_000)
    assert cut.rows == 9
    cut.widen(800)  # well used
    assert cut.rows == 9
    cut.widen(90)
    assert cut.rows == rows
