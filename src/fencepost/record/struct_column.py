"""Structs, or maps without a schema, as one column for each field."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, overload

from fencepost.record.column import Repeated


class StructColumn(Sequence[dict[str, Any]]):
    """Rows that all have the same fields, in the same order, as one column for each field. No row is null.

    A row becomes a new `dict` each time it is read, so changes of a row are lost.

    >>> from fencepost.api import Repeated, StructColumn
    >>> StructColumn({"id": [1, 2], "shop": Repeated("north", 2)}, 2)[1]
    {'id': 2, 'shop': 'north'}
    """

    __slots__ = ("_count", "columns")

    def __init__(self, columns: Mapping[str, Sequence[Any]], count: int) -> None:
        """Wrap columns of `count` entries each. Raises ValueError for a column of another length."""
        for name, column in columns.items():
            if len(column) != count:
                raise ValueError(f"the column {name} has {len(column)} entries, not {count}")
        self.columns = columns
        self._count = count

    @classmethod
    def of_rows(cls, rows: Sequence[Any]) -> "StructColumn | None":
        """Return rows as columns; None unless all are dicts that have the same fields in the same order."""
        if isinstance(rows, StructColumn):
            return rows
        if isinstance(rows, Repeated):
            one = cls.of_rows([rows.value])
            return one and cls(
                {name: Repeated(column[0], len(rows)) for name, column in one.columns.items()}, len(rows)
            )
        if not rows:
            return cls({}, 0)
        if set(map(type, rows)) != {dict}:
            return None
        orders = set(map(tuple, rows))
        names = orders.pop()
        if orders or any(type(name) is not str for name in names):
            return None
        return cls({name: list(map(itemgetter(name), rows)) for name in names}, len(rows))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not self.columns:
            return ({} for _ in range(self._count))
        names = tuple(self.columns)
        return (dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True))

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "StructColumn": ...
    def __getitem__(self, index: int | slice) -> "dict[str, Any] | StructColumn":
        if isinstance(index, slice):
            count = len(range(*index.indices(self._count)))
            return StructColumn({name: column[index] for name, column in self.columns.items()}, count)
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return {name: column[index] for name, column in self.columns.items()}
