"""Where a partition's transactions end, and where a later attempt goes on."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.spark.partition.write import _pieces, rows_after


def batches(sizes: list[int]) -> Iterator[pa.RecordBatch]:
    first = 0
    for size in sizes:
        yield pa.record_batch({"n": list(range(first, first + size))}, schema=pa.schema([("n", pa.int64())]))
        first += size


def transactions(sizes: list[int], skip: int, rows_per_commit: int) -> list[list[int]]:
    """Return the rows of each transaction; the last may be empty."""
    found: list[list[int]] = [[]]
    for piece in _pieces(rows_after(batches(sizes), skip), rows_per_commit):
        if piece is None:
            found.append([])
        else:
            found[-1].extend(piece.column("n").to_pylist())
    return found


@pytest.mark.parametrize(
    ("sizes", "skip", "rows_per_commit", "expected"),
    [
        ([3, 2], 0, 0, [[0, 1, 2, 3, 4]]),
        ([3, 2], 0, 2, [[0, 1], [2, 3], [4]]),
        ([3, 2], 4, 2, [[4]]),
        ([4], 0, 2, [[0, 1], [2, 3], []]),
        ([0, 1], 0, 1, [[0], []]),
        ([], 0, 1, [[]]),
    ],
)
def test_transactions_hold_the_configured_number_of_rows(
    sizes: list[int], skip: int, rows_per_commit: int, expected: list[list[int]]
) -> None:
    assert transactions(sizes, skip, rows_per_commit) == expected


@given(st.lists(st.integers(0, 7)), st.integers(0, 30), st.integers(0, 5))
def test_every_row_after_the_skipped_rows_is_written_once_and_in_order(
    sizes: list[int], skip: int, rows_per_commit: int
) -> None:
    found = transactions(sizes, skip, rows_per_commit)
    assert [n for rows in found for n in rows] == list(range(skip, sum(sizes)))
    if rows_per_commit:
        assert all(len(rows) == rows_per_commit for rows in found[:-1])
