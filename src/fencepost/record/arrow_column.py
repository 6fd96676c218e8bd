"""Values in Arrow arrays, which become Python objects only if one of them is read."""

from collections.abc import Iterator, Sequence
from typing import Any, Self, overload


class ArrowColumn(Sequence[Any]):
    """Values as an Arrow array, or as its chunks: text, whole numbers, booleans or doubles. A null is None.

    Converters write `array` without a look at single values, where its type is that of the schema. The first access to
    a value converts all of them to Python objects.

    >>> import pyarrow as pa
    >>> from fencepost.api import ArrowColumn
    >>> list(ArrowColumn(pa.array([1, None])))
    [1, None]
    """

    __slots__ = ("_array", "_values")

    def __init__(self, array: Any) -> None:
        self._array = array
        self._values: list[Any] | None = None

    @property
    def array(self) -> Any:
        """Return all values as one array. The first call combines the chunks."""
        if hasattr(self._array, "chunks"):
            chunks = self._array.chunks
            self._array = chunks[0] if len(chunks) == 1 else self._array.combine_chunks()
        return self._array

    @property
    def chunks(self) -> Sequence[Any]:
        """Return all values as the arrays that hold them, without combining any."""
        found: Sequence[Any] = getattr(self._array, "chunks", [self._array])
        return found

    @property
    def null_count(self) -> int:
        """Return the number of missing values."""
        return int(self._array.null_count)

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._looked_at())

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        return type(self)(self._array[index]) if isinstance(index, slice) else self._looked_at()[index]

    def picked(self, indexes: Sequence[int]) -> Self:
        """Return the values at `indexes`, in that order."""
        import pyarrow as pa

        return type(self)(self._array.take(pa.array(indexes, pa.int64())))

    def _looked_at(self) -> list[Any]:
        if self._values is None:
            self._values = self._array.to_pylist()
        return self._values
