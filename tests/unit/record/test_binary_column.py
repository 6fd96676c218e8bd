"""Bytes of Arrow's are what a list of them is, and no objects before somebody looks."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.record import BinaryColumn
from fencepost.record.binary_column import ends, size_bytes

VALUES = st.lists(st.none() | st.binary(max_size=9), max_size=9)


def column(values: list[bytes | None]) -> BinaryColumn:
    return BinaryColumn(pa.array(values, pa.binary()))


@given(pieces=st.lists(VALUES, min_size=1, max_size=4), start=st.integers(0, 30), stop=st.integers(0, 30))
def test_slice_of_joined_binary_columns_equals_that_of_lists(
    pieces: list[list[bytes | None]], start: int, stop: int
) -> None:
    whole, listed = column(pieces[0]), list(pieces[0])
    for piece in pieces[1:]:
        whole, listed = whole + column(piece), listed + piece
    part, expected = whole[start:stop], listed[start:stop]
    assert part.size_bytes == sum(len(value or b"") for value in expected)
    assert len(part) == len(expected)
    assert list(part) == part.array.to_pylist() == expected
    assert [part[index] for index in range(-len(part), len(part))] == expected * 2


@given(values=VALUES, start=st.integers(0, 9))
def test_ends_of_a_binary_column_match_its_value_lengths(values: list[bytes | None], start: int) -> None:
    array = pa.array(values, pa.binary())[start:]
    behind = ends(array)
    assert [end - behind[0] for end in behind[1:]] == [
        sum(len(value or b"") for value in values[start : index + 1]) for index in range(start, len(values))
    ]
    assert size_bytes(array) == sum(len(value or b"") for value in values[start:])


def test_index_past_the_end_of_a_binary_column_is_an_error() -> None:
    with pytest.raises(IndexError):
        column([b"a"])[1]


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view(), pa.binary(2), pa.string(), pa.large_string()])
def test_binary_column_accepts_other_arrow_types_of_bytes(kind: pa.DataType) -> None:
    values = [b"ab", b"cd", b"ef"]
    array = pa.array(values, pa.binary()).cast(kind)
    for made in (BinaryColumn(array[1:]), BinaryColumn(pa.chunked_array([array[1:2], array[2:]]))):
        assert list(made) == made.array.to_pylist() == [b"cd", b"ef"]
        assert made.array.type == pa.binary()
        assert ends(made.array)[-1] - ends(made.array)[0] == made.size_bytes == 4
