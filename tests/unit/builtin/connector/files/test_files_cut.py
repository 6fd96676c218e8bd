"""How many rows a file may have."""

import pytest

from fencepost.builtin.connector.files.sink import FileCut


def test_files_sink_without_a_size_limit_cuts_only_by_rows_max() -> None:
    cut = FileCut(7, 0)
    assert not cut.is_too_large(1 << 40)
    cut.widen(1)
    assert cut.rows == 7


def test_files_sink_cuts_a_too_large_file_to_the_rows_that_fit() -> None:
    cut = FileCut(0, 1_000)
    assert cut.rows == 0
    assert cut.is_too_large(1_001)
    assert not cut.is_too_large(1_000)
    cut.narrow(500, 10_000)
    assert cut.rows == 45  # and a tenth of room
    assert not cut.is_too_large(45 * 20)


def test_files_sink_keeps_a_row_larger_than_the_size_limit_whole() -> None:
    cut = FileCut(0, 1_000)
    cut.narrow(1, 5_000)
    assert cut.rows == 1
    assert not cut.is_too_large(5_000)


@pytest.mark.parametrize(("rows_max", "rows"), [(0, 90), (60, 60)])
def test_files_sink_puts_more_rows_into_files_when_rows_become_smaller(rows_max: int, rows: int) -> None:
    cut = FileCut(rows_max, 1_000)
    cut.narrow(10, 1_000)
    assert cut.rows == 9
    cut.widen(800)  # well used
    assert cut.rows == 9
    cut.widen(90)
    assert cut.rows == rows
