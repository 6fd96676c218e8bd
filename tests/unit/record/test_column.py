"""Columns that cost nothing until somebody looks inside."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.record import Batch, BinaryColumn, Repeated, Runs, is_missing

RUNS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), max_size=6)


def runs(pairs: list[tuple[str, int]]) -> Runs[str]:
    return Runs([value for value, _ in pairs], [count for _, count in pairs])


@given(RUNS, st.integers(0, 30), st.integers(0, 30))
def test_runs_equal_the_list_of_their_repeated_values(pairs: list[tuple[str, int]], start: int, stop: int) -> None:
    column = runs(pairs)
    meant = [value for value, count in pairs for _ in range(count)]
    assert (list(column), len(column)) == (meant, len(meant))
    assert [column[n] for n in range(-len(meant), len(meant))] == meant + meant
    assert list(column[start:stop]) == meant[start:stop]
    with pytest.raises(IndexError):
        column[len(meant)]


def test_repeated_column_returns_its_value_at_each_index() -> None:
    assert list(Repeated("a", 3)) == ["a", "a", "a"]
    assert [Repeated("a", 3)[n] for n in (0, -1)] == ["a", "a"]


def test_last_offset_of_each_run_of_partitions_is_found() -> None:
    partitions = Runs([{"p": 0}, {"p": 1}, {"p": 0}], [2, 1, 1])
    batch = Batch(Repeated("t", 4), [b""] * 4, partitions, [{"n": 1}, None, {"n": 5}, {"n": 2}])
    assert batch.last_offsets() == [({"p": 0}, {"n": 1}), ({"p": 1}, {"n": 5}), ({"p": 0}, {"n": 2})]


BYTES = st.lists(st.one_of(st.none(), st.binary(max_size=2)), min_size=1, max_size=4)


@given(
    st.one_of(
        BYTES,
        BYTES.map(lambda values: BinaryColumn(pa.array(values, pa.binary()))),
        st.tuples(st.one_of(st.none(), st.binary(max_size=2)), st.integers(1, 3)).map(lambda pair: Repeated(*pair)),
    )
)
def test_column_is_missing_if_all_its_values_are_none(column: Sequence[bytes | None]) -> None:
    assert is_missing(column) == all(value is None for value in column)
