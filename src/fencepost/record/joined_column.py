"""Columns one after the other, as one."""

from collections.abc import Callable, Sequence
from itertools import chain
from operator import eq, is_
from typing import Any

from fencepost.record.binary_column import BinaryColumn
from fencepost.record.column import Repeated, Runs
from fencepost.record.header_column import HeaderColumn


def joined_column(columns: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return the values of all columns in order, without a Python object for each if their kinds allow that.

    >>> list(joined_column([Repeated("a", 2), Repeated("b", 1)]))
    ['a', 'a', 'b']
    """
    full = [column for column in columns if len(column)]
    if len(full) == 1:
        return full[0]
    if full and all(isinstance(each, Repeated | Runs) for each in full):
        return _runs(full)
    if any(isinstance(each, BinaryColumn) for each in full) and all(map(_is_binary, full)):
        return BinaryColumn.joined(
            [each if isinstance(each, BinaryColumn) else BinaryColumn.without_values(len(each)) for each in full]
        )
    if any(isinstance(each, HeaderColumn) for each in full) and all(map(_is_raw, full)):
        raw = [each.raw if isinstance(each, HeaderColumn) else each for each in full]
        # Names and bytes that are equal are the same, unlike values, of which 1 and True are equal.
        is_in_runs = all(isinstance(each, Repeated | Runs) for each in raw)
        return HeaderColumn(_runs(raw, eq) if is_in_runs else list(chain.from_iterable(raw)))
    return list(chain.from_iterable(full))


def joined_member(parts: Sequence[Any], name: str, empty: Any = None) -> Any:
    """Return the column `name` of all parts, with `empty` for the records of parts without it; None if none has it."""
    columns = [getattr(part, name) for part in parts]
    if all(each is None for each in columns):
        return None
    pairs = zip(parts, columns, strict=True)
    return joined_column([Repeated(empty, len(part)) if each is None else each for part, each in pairs])


def _runs(columns: Sequence[Any], are_same: Callable[[Any, Any], bool] = is_) -> Repeated[Any] | Runs[Any]:
    values: list[Any] = []
    counts: list[int] = []
    for column in columns:
        values += column.values if isinstance(column, Runs) else [column.value]
        counts += column.counts if isinstance(column, Runs) else [len(column)]
    first = values[0]
    return Repeated(first, sum(counts)) if all(are_same(each, first) for each in values) else Runs(values, counts)


def _is_binary(column: Sequence[Any]) -> bool:
    return isinstance(column, BinaryColumn) or (isinstance(column, Repeated) and column.value is None)


def _is_raw(column: Sequence[Any]) -> bool:
    return isinstance(column, HeaderColumn) or (isinstance(column, Repeated) and not column.value)
