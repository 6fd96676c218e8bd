"""Columns of all kinds, one after the other."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.record import Batch, BinaryColumn, Header, HeaderColumn, Repeated, Runs, joined_column, joined_member

_BYTES = st.one_of(st.none(), st.binary(max_size=3))
_COLUMNS = st.one_of(
    st.lists(_BYTES, max_size=4),
    st.lists(_BYTES, max_size=4).map(lambda values: BinaryColumn(pa.array(values, pa.binary()))),
    st.tuples(_BYTES, st.integers(0, 3)).map(lambda pair: Repeated(*pair)),
    st.lists(st.tuples(_BYTES, st.integers(1, 3)), max_size=3).map(
        lambda runs: Runs([value for value, _ in runs], [count for _, count in runs])
    ),
)


@given(st.lists(_COLUMNS, max_size=4))
def test_joined_column_has_the_values_of_all_columns_in_order(columns: list[Sequence[Any]]) -> None:
    joined = joined_column(columns)
    assert list(joined) == [value for column in columns for value in column]
    assert len(joined) == sum(map(len, columns))


def binary(*values: bytes | None) -> BinaryColumn:
    return BinaryColumn(pa.array(values, pa.binary()))


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ([Repeated("a", 2), Repeated("a", 1)], Repeated),
        ([Repeated("a", 2), Runs(["b"], [1])], Runs),
        ([binary(b"a"), Repeated(None, 2), binary()], BinaryColumn),
        ([HeaderColumn([[("h", b"1")]]), Repeated((), 1)], HeaderColumn),
        ([binary(b"a"), Repeated(b"b", 2)], list),
        ([Repeated({"n": 1}, 1), Repeated({"n": True}, 1)], Runs),
        ([Repeated((Header("n", 1),), 1), Repeated((Header("n", True),), 1)], Runs),
    ],
)
def test_joined_column_keeps_the_cheapest_common_kind(columns: list[Sequence[Any]], kind: type) -> None:
    assert type(joined_column(columns)) is kind


def test_equal_headers_of_joined_parts_stay_one_repeated_value() -> None:
    """Each answer of a host has objects of its own."""
    parts = [HeaderColumn(Repeated((("h", bytes([49])),), 2)) for _ in range(2)]
    joined = joined_column(parts)
    assert isinstance(joined, HeaderColumn)
    assert isinstance(joined.raw, Repeated)
    assert list(joined) == [*parts[0], *parts[1]]
    joined = joined_column([*parts, Repeated((), 1)])
    assert isinstance(joined, HeaderColumn)
    assert [len(each) for each in joined] == [1, 1, 1, 1, 0]


def batch(keys: Sequence[bytes | None] | None) -> Batch:
    return Batch(["t", "t"], [b"1", b"2"], [{}, {}], [{}, {}], keys=keys)


def test_a_part_without_a_column_has_its_empty_value_for_each_record() -> None:
    assert list(joined_member([batch(None), batch([b"k", None])], "keys", b"-")) == [b"-", b"-", b"k", None]


def test_column_missing_from_all_parts_is_none() -> None:
    assert joined_member([batch(None), batch(None)], "keys") is None
    assert joined_member([], "keys") is None
