"""Rows as columns of their fields, and entries picked from columns of all forms."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.record import (
    BinaryColumn,
    HeaderColumn,
    Repeated,
    SinkBatch,
    SinkRecord,
    StructColumn,
    TopicPartition,
    Utf8Column,
    picked,
)
from support.column_records import columns_of, exact

ROWS = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 3, "b": "z"}]


def test_a_row_is_a_new_dict_each_time() -> None:
    structs = StructColumn({"a": [1, 2], "s": Repeated("k", 2)}, 2)
    structs[0]["a"] = 7
    assert list(structs) == [structs[0], structs[-1]] == [{"a": 1, "s": "k"}, {"a": 2, "s": "k"}]
    with pytest.raises(IndexError):
        structs[2]


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1}, {"a": 1, "b": 2}],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [{"a": 1}, None],
        [{1: "a"}, {True: "b"}],
        ["text"],
        Repeated(None, 2),
    ],
    ids=["fields", "order", "null", "names that are no text", "no rows", "nothing"],
)
def test_rows_with_different_fields_make_no_struct_column(rows: Any) -> None:
    assert StructColumn.of_rows(rows) is None


@given(st.integers(0, 4).flatmap(lambda count: columns_of(count, is_typed=False)))
def test_rows_of_a_struct_column_are_returned_unchanged(rows: tuple[None, list[Any]]) -> None:
    structs = StructColumn.of_rows(rows[1])
    assert structs is not None
    assert exact(list(structs)) == exact(rows[1])
    assert exact(list(structs[1:3])) == exact(rows[1][1:3])


def test_equal_rows_become_columns_of_one_repeated_value() -> None:
    structs = StructColumn.of_rows(Repeated({"a": 1}, 3))
    assert structs is not None
    assert isinstance(structs.columns["a"], Repeated)
    assert list(structs) == [{"a": 1}] * 3


COLUMNS: list[Any] = [
    ["a", "b", "c"],
    Repeated("a", 3),
    Utf8Column([b"a", b"b", b"c"]),
    Utf8Column(BinaryColumn(pa.array([b"a", b"b", b"c"], pa.binary()))),
    BinaryColumn(pa.chunked_array([[b"a"], [None, b"c"]], pa.binary())),
    HeaderColumn([[("h", b"1")], [], [("i", None)]]),
    StructColumn.of_rows(ROWS),
    range(3),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: type(column).__name__)
@pytest.mark.parametrize("indexes", [[], [1], [0, 2], [0, 1, 2, 2]])
def test_picked_column_has_the_entries_at_the_given_indexes(column: Any, indexes: list[int]) -> None:
    found = picked(column, indexes)
    assert list(found) == [column[index] for index in indexes]
    assert type(found) is type(column) or isinstance(column, range)


def test_joined_sink_batches_keep_their_order() -> None:
    def batch(value: Any, topic: str) -> SinkBatch:
        return SinkBatch.of_records([SinkRecord(topic, 0, 1, value, at=TopicPartition(topic, 0))])

    parts = [batch(1, "t"), batch(2, "u")]
    joined = SinkBatch.joined(parts)
    assert list(joined) == [record for part in parts for record in part]
    assert isinstance(joined.value_schemas, Repeated)
    assert joined.headers is None
    assert SinkBatch.joined(parts[:1]) is parts[0]
    assert list(SinkBatch.joined([])) == []
