"""Columns that create Python objects only for values that are read; several joined, and some entries of one."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, repeat
from operator import eq, is_, itemgetter
from typing import Any, Generic, TypeVar, overload

from fencepost.record.arrow_column import ArrowColumn
from fencepost.record.binary_column import BinaryColumn, in_utf8, texts
from fencepost.record.java_value import java_decoded
from fencepost.record.record import Header
from fencepost.record.schema import BYTES

T = TypeVar("T")


def distinct(column: Sequence[T]) -> set[T]:
    """Return the distinct values of a column, without reading each entry of a `Repeated` or of `Runs`."""
    if isinstance(column, Repeated):
        return {column.value} if len(column) else set()
    return set(column.values if isinstance(column, Runs) else column)


def runs_of(column: Sequence[T]) -> Iterator[tuple[T, int]]:
    """Yield the values of a column, each with how often it is repeated: `Repeated` and `Runs` know, others do not."""
    if isinstance(column, Repeated):
        return iter([(column.value, len(column))])
    if isinstance(column, Runs):
        return zip(column.values, column.counts, strict=True)
    return zip(column, repeat(1))


def is_missing(column: Sequence[Any]) -> bool:
    """Say whether all values of a column are None, without reading each if that is not necessary."""
    if isinstance(column, Repeated):
        return column.value is None
    if isinstance(column, ArrowColumn):
        return column.null_count == len(column)
    return next(iter(column), None) is None and column.count(None) == len(column)


class Utf8Column(Sequence[str]):
    """Text as UTF-8 bytes, in a list or a `BinaryColumn`: an item is decoded when it is read.

    Bytes that are not UTF-8 decode to U+FFFD, as in Java, and are written as that (`utf8`).

    >>> from fencepost.api import Utf8Column
    >>> Utf8Column([b"one", b"two"])[1]
    'two'
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Sequence[bytes]) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Utf8Column": ...
    def __getitem__(self, index: int | slice) -> "str | Utf8Column":
        if isinstance(index, slice):
            return Utf8Column(self.raw[index])
        return java_decoded(self.raw[index])

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts())

    def texts(self) -> list[str]:
        """Return all values, decoded."""
        if isinstance(self.raw, BinaryColumn):
            return texts(self.raw)
        return list(map(java_decoded, self.raw))

    def utf8(self) -> Sequence[bytes]:
        """Return the values in UTF-8: `raw` itself, unless something in it is not UTF-8."""
        if isinstance(self.raw, BinaryColumn):
            return in_utf8(self.raw)
        return self.raw if _are_utf8(self.raw) else [text.encode() for text in self.texts()]


def _are_utf8(values: Sequence[bytes]) -> bool:
    together = b"\n".join(values)  # no value can complete what another one begins
    if together.isascii():
        return True
    try:
        together.decode()
    except UnicodeDecodeError:
        return False
    return True


class BytesColumn(Sequence[bytes | None]):
    """A column whose entries are known to be bytes or None without reading any. This class itself has no entries."""

    __slots__ = ()

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: int | slice) -> Any:
        return [][index]


class PositionColumn(Sequence[dict[str, Any]]):
    """Source offsets of the form `{name: number}`, stored as numbers.

    >>> from fencepost.api import PositionColumn
    >>> PositionColumn("n", range(5, 8))[0]
    {'n': 5}
    """

    __slots__ = ("name", "numbers")

    def __init__(self, name: str, numbers: Sequence[int]) -> None:
        self.name = name
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "PositionColumn": ...
    def __getitem__(self, index: int | slice) -> "dict[str, Any] | PositionColumn":
        if isinstance(index, slice):
            return PositionColumn(self.name, self.numbers[index])
        return {self.name: self.numbers[index]}


class Runs(Sequence[T], Generic[T]):
    """Values in runs: each of `values` is repeated as often as `counts` says, in order."""

    __slots__ = ("counts", "ends", "values")

    def __init__(self, values: Sequence[T], counts: Sequence[int]) -> None:
        self.values = values
        self.counts = counts
        self.ends = list(accumulate(counts))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(map(repeat, self.values, self.counts))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> "Sequence[T]": ...
    def __getitem__(self, index: int | slice) -> "T | Sequence[T]":
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return self._slice(start, stop) if step == 1 else list(self)[index]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.values[bisect_right(self.ends, index % len(self))]

    def _slice(self, start: int, stop: int) -> "Runs[T]":
        pieces = [
            (value, min(end, stop) - max(end - count, start))
            for value, count, end in zip(self.values, self.counts, self.ends, strict=True)
        ]
        kept = [(value, count) for value, count in pieces if count > 0]
        return Runs([value for value, _ in kept], [count for _, count in kept])


class Chained(Sequence[T], Generic[T]):
    """Several sequences, concatenated without copying them."""

    __slots__ = ("ends", "parts")

    def __init__(self, parts: Sequence[Sequence[T]]) -> None:
        self.parts = parts
        self.ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self.parts)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> "Sequence[T]": ...
    def __getitem__(self, index: int | slice) -> "T | Sequence[T]":
        if isinstance(index, slice):
            return self._slice(*index.indices(len(self)))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        at = index % len(self)
        found = bisect_right(self.ends, at)
        return self.parts[found][at - self.ends[found]]  # a negative index

    def _slice(self, start: int, stop: int, step: int) -> "Sequence[T]":
        if step != 1:
            return [self[index] for index in range(start, stop, step)]
        pieces = []
        for part, end in zip(self.parts, self.ends, strict=True):
            first = end - len(part)
            if max(start, first) < min(stop, end):
                pieces.append(part[max(start - first, 0) : stop - first])
        return Chained(pieces)


class Repeated(Sequence[T], Generic[T]):
    """One value, `count` times.

    >>> from fencepost.api import Repeated
    >>> list(Repeated("orders", 3))
    ['orders', 'orders', 'orders']
    """

    __slots__ = ("length", "value")

    def __init__(self, value: T, count: int) -> None:
        self.value = value
        self.length = count

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[T]:
        return repeat(self.value, self.length)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> "Repeated[T]": ...
    def __getitem__(self, index: int | slice) -> "T | Repeated[T]":
        if isinstance(index, slice):
            return type(self)(self.value, len(range(*index.indices(self.length))))
        if not -self.length <= index < self.length:
            raise IndexError(index)
        return self.value


class PolledAt(Repeated[int]):
    """The time of a poll, in milliseconds since 1970, as the timestamp of its records.

    Transforms see it. A record that keeps it has no time of its own: as columns, it gets the time at which it is sent.
    """

    __slots__ = ()


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


HeaderBytes = tuple[str, bytes | None]

_OPTIONAL_BYTES = BYTES.optional()


class HeaderColumn(Sequence[tuple[Header, ...]]):
    """The headers of records, one entry for each. If headers are sent as bytes, `raw` goes to Kafka unchanged.

    >>> from fencepost.api import HeaderColumn
    >>> HeaderColumn([[("trace", b"x1")], []])[0][0].value
    b'x1'
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Sequence[Sequence[HeaderBytes]]) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw)

    @overload
    def __getitem__(self, index: int) -> tuple[Header, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> "HeaderColumn": ...
    def __getitem__(self, index: int | slice) -> "tuple[Header, ...] | HeaderColumn":
        if isinstance(index, slice):
            return HeaderColumn(self.raw[index])
        return tuple(Header(key, value, _OPTIONAL_BYTES) for key, value in self.raw[index])


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
    if _are(BinaryColumn, full, (None,)):
        return BinaryColumn.joined(
            [each if isinstance(each, BinaryColumn) else BinaryColumn.without_values(len(each)) for each in full]
        )
    if full and all(isinstance(each, StructColumn) for each in full):
        return _structs(full)
    arrays = [column for column in full if isinstance(column, ArrowColumn)]
    if arrays and len(arrays) == len(full) and len({(type(each), each.type) for each in arrays}) == 1:
        return type(arrays[0]).joined(arrays)
    if _are(HeaderColumn, full, (None, ())):
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


def _structs(parts: Sequence[Any]) -> Sequence[Any]:
    names = tuple(parts[0].columns)
    if any(tuple(each.columns) != names for each in parts):
        return list(chain.from_iterable(parts))
    columns = {name: joined_column([each.columns[name] for each in parts]) for name in names}
    return StructColumn(columns, sum(map(len, parts)))


def _runs(columns: Sequence[Any], are_same: Callable[[Any, Any], bool] = is_) -> Repeated[Any] | Runs[Any]:
    values: list[Any] = []
    counts: list[int] = []
    for column in columns:
        values += column.values if isinstance(column, Runs) else [column.value]
        counts += column.counts if isinstance(column, Runs) else [len(column)]
    first = values[0]
    return Repeated(first, sum(counts)) if all(are_same(each, first) for each in values) else Runs(values, counts)


def _are(kind: type[Any], columns: Sequence[Sequence[Any]], nothing: tuple[Any, ...]) -> bool:
    """Return whether some are of a kind, and the others have nothing for any record."""
    others = [each for each in columns if not isinstance(each, kind)]
    has_nothing = all(isinstance(each, Repeated) and each.value in nothing for each in others)
    return len(others) < len(columns) and has_nothing


def picked(column: Sequence[T], indexes: Sequence[int]) -> Sequence[T]:
    """Return the entries at `indexes`, in that order. An index may occur more than once."""
    if isinstance(column, Repeated):
        return type(column)(column.value, len(indexes))
    found: Sequence[T] = _picked(column, indexes)
    return found


def _picked(column: Any, indexes: Sequence[int]) -> Any:
    if isinstance(column, Utf8Column):
        return Utf8Column(picked(column.raw, indexes))
    if isinstance(column, ArrowColumn):
        return column.picked(indexes)
    if isinstance(column, HeaderColumn):
        return HeaderColumn(picked(column.raw, indexes))
    if isinstance(column, StructColumn):
        return StructColumn({name: picked(each, indexes) for name, each in column.columns.items()}, len(indexes))
    each = list(column) if isinstance(column, Runs) else column  # which looks for the run of each index
    return [each[index] for index in indexes]
