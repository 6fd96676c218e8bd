"""Bytes that are Arrow's, and become objects of Python's only where somebody looks."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, overload

_OFFSET = struct.Struct("=i")


class BinaryColumn(Sequence[Any]):
    """Values of bytes as an Arrow array, or as its chunks; a null is no value.

    The batch client sends `array` as it is. Whoever asks for a value makes objects of all of them, once.
    """

    __slots__ = ("_array", "_values")

    def __init__(self, array: Any) -> None:
        """Make an array of another type than `binary`, of text or with larger offsets for one, one of that."""
        self._array = array if array.type == "binary" else array.cast("binary")
        self._values: list[bytes | None] | None = None

    @property
    def array(self) -> Any:
        """Return all values as one array; chunks are put together when this is asked for first."""
        if hasattr(self._array, "chunks"):
            chunks = self._array.chunks
            self._array = chunks[0] if len(chunks) == 1 else self._array.combine_chunks()
        return self._array

    @property
    def chunks(self) -> Sequence[Any]:
        """Return all values as the arrays that they are in: nothing is put together."""
        found: Sequence[Any] = getattr(self._array, "chunks", [self._array])
        return found

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all values."""
        return sum(map(size_bytes, self.chunks))

    @property
    def null_count(self) -> int:
        """Return how many places have no value."""
        return int(self._array.null_count)

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self._looked_at())

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> "BinaryColumn": ...
    def __getitem__(self, index: int | slice) -> "BinaryColumn | bytes | None":
        return BinaryColumn(self._array[index]) if isinstance(index, slice) else self._looked_at()[index]

    def __add__(self, other: "BinaryColumn") -> "BinaryColumn":
        """Return these values and those of another column behind them; nothing is copied yet."""
        return BinaryColumn.joined([self, other])

    @classmethod
    def joined(cls, columns: "Sequence[BinaryColumn]") -> "BinaryColumn":
        """Return the values of several columns, one behind the other; nothing is copied yet."""
        import pyarrow as pa  # for those who have columns of it

        return cls(pa.chunked_array([chunk for each in columns for chunk in each.chunks], pa.binary()))

    @classmethod
    def without_values(cls, count: int) -> "BinaryColumn":
        """Return a column that has no value in any of so many places."""
        import pyarrow as pa

        return cls(pa.nulls(count, pa.binary()))

    def _looked_at(self) -> list[bytes | None]:
        if self._values is None:
            self._values = self._array.to_pylist()
        return self._values


def ends(array: Any) -> Sequence[int]:
    """Return where the first value of a binary array begins in its data, and where each ends."""
    if not len(array):
        return (0,)
    offsets = memoryview(array.buffers()[1]).cast("B").cast("i")
    return offsets[array.offset : array.offset + len(array) + 1]


def lines(array: Any) -> Any:
    """Return the values of a binary array, none of which is null, in one buffer, with a line break between two."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
    # Of a constant without a type Arrow asks whether it is a time, at the cost of ten of its steps.
    return pc.binary_join(whole, pa.scalar(b"\n", pa.binary()))[0].as_buffer()


def size_bytes(array: Any) -> int:
    """Return the bytes of all values of a binary array; a null may count for what its place in the data takes."""
    if not len(array):
        return 0
    offsets, first = array.buffers()[1], array.offset
    (start,) = _OFFSET.unpack_from(offsets, first * _OFFSET.size)
    (end,) = _OFFSET.unpack_from(offsets, (first + len(array)) * _OFFSET.size)
    return int(end - start)
