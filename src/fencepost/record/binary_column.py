"""Bytes in Arrow arrays, which become Python objects only if a value is read."""

import struct
from collections.abc import Sequence
from typing import Any

from fencepost.record.arrow_column import ArrowColumn
from fencepost.record.java_value import java_decoded

_OFFSET = struct.Struct("=i")


class BinaryColumn(ArrowColumn):
    """Bytes as an Arrow array, or as its chunks. A null is a missing value.

    The batch client sends `array` unchanged. The first access to a value converts all of them to Python objects.

    >>> import pyarrow as pa
    >>> from fencepost.api import BinaryColumn
    >>> list(BinaryColumn(pa.array(["a", None])))
    [b'a', None]
    """

    __slots__ = ()

    def __init__(self, array: Any) -> None:
        """Wrap an array. Other types than `binary`, such as text or arrays with larger offsets, are converted."""
        super().__init__(array if array.type == "binary" else array.cast("binary"))

    @property
    def size_bytes(self) -> int:
        """Return the size of all values in bytes."""
        return sum(map(size_bytes, self.chunks))

    def __add__(self, other: "BinaryColumn") -> "BinaryColumn":
        """Return these values, followed by those of another column. Nothing is copied yet."""
        return BinaryColumn.joined([self, other])

    @classmethod
    def without_values(cls, count: int) -> "BinaryColumn":
        """Return a column of `count` missing values."""
        import pyarrow as pa

        return cls(pa.nulls(count, pa.binary()))


def ends(array: Any) -> Sequence[int]:
    """Return the position in a binary array's data where the first value begins, and where each value ends."""
    if not len(array):
        return (0,)
    offsets = memoryview(array.buffers()[1]).cast("B").cast("i")
    return offsets[array.offset : array.offset + len(array) + 1]


def lines(array: Any) -> Any:
    """Return the values of a binary array without nulls in one buffer, separated by line breaks."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
    # Without a type, Arrow would check whether the constant is a time, which costs as much as ten operations.
    return pc.binary_join(whole, pa.scalar(b"\n", pa.binary()))[0].as_buffer()


def texts(column: BinaryColumn) -> list[str]:
    """Return values without nulls as text; bytes that are not UTF-8 become U+FFFD, as in Java."""
    found: list[str] = []
    for chunk in column.chunks:
        if len(chunk):
            together = java_decoded(lines(chunk).to_pybytes()).split("\n")
            has_breaks = len(together) != len(chunk)
            found += map(java_decoded, chunk.to_pylist()) if has_breaks else together
    return found


def in_utf8(column: BinaryColumn) -> BinaryColumn:
    """Return values without nulls in UTF-8: the column itself, unless something in it is not UTF-8."""
    import pyarrow as pa

    chunks = column.chunks
    if all(map(_is_utf8, chunks)):
        return column
    return BinaryColumn(pa.chunked_array([each if _is_utf8(each) else _replaced(each) for each in chunks], pa.binary()))


def _is_utf8(array: Any) -> bool:
    """Say whether all values are UTF-8, without a copy of any."""
    import pyarrow as pa

    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _replaced(array: Any) -> Any:
    import pyarrow as pa

    return pa.array([java_decoded(each).encode() for each in array.to_pylist()], pa.binary())


def size_bytes(array: Any) -> int:
    """Return the size of all values of a binary array. A null counts with any bytes that it occupies in the data."""
    if not len(array):
        return 0
    offsets, first = array.buffers()[1], array.offset
    (start,) = _OFFSET.unpack_from(offsets, first * _OFFSET.size)
    (end,) = _OFFSET.unpack_from(offsets, (first + len(array)) * _OFFSET.size)
    return int(end - start)


def constant(data: bytes) -> Any:
    """Return a scalar with an explicit type: Arrow takes 40 µs to infer one."""
    import pyarrow as pa

    return pa.scalar(data, pa.binary())


def bytes_of(texts: Any) -> Any:
    """Return the bytes of all texts of an array, concatenated, as an Arrow buffer, without a copy."""
    import pyarrow as pa

    _, ends, data = texts.buffers()
    if not len(texts) or data is None:
        return pa.py_buffer(b"")
    offsets = memoryview(ends).cast("B").cast("q" if pa.types.is_large_string(texts.type) else "i")
    first, last = offsets[texts.offset], offsets[texts.offset + len(texts)]
    return data.slice(first, last - first)
