"""Some entries of a column, in the form that the column has."""

from collections.abc import Sequence
from typing import Any, TypeVar

from fencepost.record.binary_column import BinaryColumn
from fencepost.record.column import Repeated, Runs, Utf8Column
from fencepost.record.header_column import HeaderColumn
from fencepost.record.struct_column import StructColumn

T = TypeVar("T")


def picked(column: Sequence[T], indexes: Sequence[int]) -> Sequence[T]:
    """Return the entries at `indexes`, in that order. An index may occur more than once."""
    if isinstance(column, Repeated):
        return type(column)(column.value, len(indexes))
    found: Sequence[T] = _picked(column, indexes)
    return found


def _picked(column: Any, indexes: Sequence[int]) -> Any:
    if isinstance(column, Utf8Column):
        return Utf8Column(picked(column.raw, indexes))
    if isinstance(column, BinaryColumn):
        return column.picked(indexes)
    if isinstance(column, HeaderColumn):
        return HeaderColumn(picked(column.raw, indexes))
    if isinstance(column, StructColumn):
        return StructColumn({name: picked(each, indexes) for name, each in column.columns.items()}, len(indexes))
    each = list(column) if isinstance(column, Runs) else column  # which looks for the run of each index
    return [each[index] for index in indexes]
