"""Columns that create Python objects only for values that are read."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, repeat
from typing import Any, Generic, TypeVar, overload

from fencepost.record.binary_column import BinaryColumn, in_utf8, texts
from fencepost.record.java_utf8 import java_decoded

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
    if isinstance(column, BinaryColumn):
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
