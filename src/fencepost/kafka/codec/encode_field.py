"""The fields of records as columns of bytes, which Arrow joins row by row; numbers become varints a column at a time.

A record's numbers are zigzag varints: 7 bits a byte, the lowest first, with the top bit set if more follow. Small ones
are looked up in a table. For larger ones a table gives two bytes at a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce

import pyarrow as pa
import pyarrow.compute as pc

_BITS = 14  # of two bytes
_ENTRIES = 1 << _BITS
_NOTHING = _ENTRIES  # the last entry, which is empty
_BINARY, _INT64, _UINT64 = pa.binary(), pa.int64(), pa.uint64()
_BETWEEN = pa.scalar(b"", _BINARY)
_NULL = pa.scalar(-1, pa.int32())
_MOST_TABLES = 16
_LEAST_BITS = 10


@dataclass(frozen=True, slots=True)
class EncodedField:
    """One field of each row: its bytes, as columns to concatenate, and their number.

    Bytes that are the same in all rows are a scalar, and their width is a plain number.
    """

    pieces: tuple[pa.Array | pa.Scalar, ...]
    width: pa.Array | int


def constant(data: bytes) -> EncodedField:
    """Return a field with the same bytes in all rows."""
    return EncodedField((pa.scalar(data, _BINARY),) if data else (), len(data))


def column(data: pa.Array) -> EncodedField:
    """Return a binary column as a field; a null has no bytes."""
    whole = pc.fill_null(data, pa.scalar(b"", data.type)) if data.null_count else data
    return EncodedField((whole,), pc.binary_length(whole))


def varint(number: int) -> bytes:
    """Return the varint of a signed 64-bit number."""
    return unsigned((number << 1) ^ (number >> 63))


def unsigned(number: int) -> bytes:
    """Return the varint of an unsigned number."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def varints(numbers: pa.Array, before: bytes = b"") -> EncodedField:
    """Return the varints of whole numbers (at least one, no nulls), each with the bytes `before` in front of it."""
    low, high = (number.as_py() for number in pc.min_max(numbers).values())
    if low == high:
        return constant(before + varint(low))
    if low < 0 or high >= _ENTRIES:
        return _any_varints(numbers, before)
    piece = _look_up(_steps(_BITS, before, b""), numbers)
    shortest, longest = len(varint(low)), len(varint(high))
    return EncodedField((piece,), len(before) + longest if shortest == longest else pc.binary_length(piece))


def steps(count: int, before: bytes, after: bytes) -> EncodedField:
    """Return the varints from 0 up to before `count`, between the same bytes. They are cached for all batches."""
    made = _steps(max((count - 1).bit_length(), _LEAST_BITS), before, after)
    return column(made.slice(0, count))


def joined(fields: Iterable[EncodedField]) -> pa.Array:
    """Concatenate the fields of each row. At least one must be a column."""
    return pc.binary_join_element_wise(*(piece for each in fields for piece in each.pieces), _BETWEEN)


def lengths(data: pa.Array) -> pa.Array:
    """Return each length in bytes; that of a null is -1, as in records."""
    found = pc.binary_length(data)
    return pc.fill_null(found, _NULL) if found.null_count else found


def total(widths: list[pa.Array | int]) -> pa.Array | int:
    """Add up widths row by row."""
    same = sum(width for width in widths if isinstance(width, int))
    columns = [width for width in widths if not isinstance(width, int)]
    return reduce(pc.add, columns, _signed(same)) if columns else same


def _any_varints(numbers: pa.Array, before: bytes) -> EncodedField:
    zigzag = _zigzag(numbers.cast(_INT64))
    pieces = []
    while pc.max(zigzag).as_py() >= _ENTRIES:
        is_long = pc.greater_equal(zigzag, _whole(_ENTRIES))
        low = pc.bit_wise_and(zigzag, _whole(_ENTRIES - 1))
        pieces.append(_look_up(_continued(before), pc.if_else(is_long, low, _whole(_NOTHING))))
        zigzag = pc.if_else(is_long, pc.shift_right(zigzag, _whole(_BITS)), zigzag)
        before = b""
    pieces.append(_look_up(_ended(before), zigzag))
    return EncodedField(tuple(pieces), total([pc.binary_length(piece) for piece in pieces]))


def _zigzag(numbers: pa.Array) -> pa.Array:
    doubled = pc.shift_left(numbers, _signed(1))
    is_negative = pc.less(numbers, _signed(0))  # Arrow does not shift by 63 bits
    return pc.if_else(is_negative, pc.bit_wise_not(doubled), doubled).view(_UINT64)


def _look_up(table: pa.Array, indices: pa.Array) -> pa.Array:
    return pc.take(table, indices, boundscheck=False)


# A scalar whose type Arrow must infer costs as much as a whole column.
def _signed(number: int) -> pa.Scalar:
    return pa.scalar(number, _INT64)


def _whole(number: int) -> pa.Scalar:
    return pa.scalar(number, _UINT64)


@lru_cache(_MOST_TABLES)
def _ended(before: bytes) -> pa.Array:
    if before:
        return joined((constant(before), column(_ended(b""))))
    short = [bytes((number,)) for number in range(128)]
    return pa.array([*short, *(bytes((n & 0x7F | 0x80, n >> 7)) for n in range(128, _ENTRIES))], _BINARY)


@lru_cache(_MOST_TABLES)
def _continued(before: bytes) -> pa.Array:
    """Return the table of bytes that are followed by more. Its last, empty entry is for rows without such bytes."""
    if before:
        return joined((constant(before), column(_continued(b""))))
    return pa.array([*(bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(_ENTRIES)), b""], _BINARY)


@lru_cache(_MOST_TABLES)
def _steps(bits: int, before: bytes, after: bytes) -> pa.Array:
    numbers = _any_varints(pa.array(range(1 << bits), _INT64), before)
    return joined((numbers, constant(after)))
