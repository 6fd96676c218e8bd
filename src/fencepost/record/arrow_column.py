"""Values in Arrow arrays, which become Python objects only if one of them is read."""

from collections.abc import Iterator, Sequence
from typing import Any, Self, overload

from fencepost.record.java_value import moment


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

    @classmethod
    def joined(cls, columns: "Sequence[ArrowColumn]") -> Self:
        """Concatenate several columns of one type. Nothing is copied yet."""
        import pyarrow as pa  # only users of Arrow columns need it

        return cls(pa.chunked_array([chunk for each in columns for chunk in each.chunks], columns[0].type))

    @property
    def type(self) -> Any:
        """Return the type of the values."""
        return self._array.type

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

    def __contains__(self, value: object) -> bool:
        import pyarrow as pa
        import pyarrow.compute as pc

        if value is None:
            return self.null_count > 0
        try:
            return bool(pc.index(self._array, pa.scalar(value, self._array.type)).as_py() >= 0)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return value in self._looked_at()

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


class MomentColumn(ArrowColumn):
    """Moments, in an array of timestamps in UTC. A value is a datetime with `datetime.UTC`."""

    __slots__ = ()

    @classmethod
    def of_ms(cls, numbers: Any) -> Self:
        """Wrap an array of milliseconds since 1970. Raises ValueError before the year 1 and after 9999."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for each in pc.min_max(numbers).values():
            moment(each.as_py() or 0)
        return cls(numbers.cast(pa.timestamp("ms", "UTC")))

    def _looked_at(self) -> list[Any]:
        if self._values is None:
            numbers = self._array.cast("int64").to_pylist()
            self._values = [None if each is None else moment(each) for each in numbers]
        return self._values
