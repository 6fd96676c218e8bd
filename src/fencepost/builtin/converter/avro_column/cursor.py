"""A position in each of many values, which moves on as their fields are read.

Arrow does all of the work: one operation a step for all values, never one for each. Positions increase from value to
value, so pieces of bytes are cut out of one buffer by its own offsets.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_LONG, _BYTE, _BINARY = pa.int64(), pa.uint8(), pa.binary()
_ONE, _HALF, _POSITIVE = (pa.scalar(number, _LONG) for number in (1, 32, (1 << 63) - 1))
_MORE, _NOWHERE, _NO_BYTE = pa.scalar(0x80, _LONG), pa.scalar(None, _LONG), pa.scalar(0, _BYTE)
_LONGEST_BITS = 64
# The value of the bit at this position. A shift is not enough: Arrow does not shift into the sign bit.
_PLACES = [pa.scalar(1 << up, _LONG) for up in range(_LONGEST_BITS - 1)] + [pa.scalar(-(1 << 63), _LONG)]
_MASKS = [pa.scalar((1 << bits) - 1, _LONG) for bits in range(_LONGEST_BITS)]
# A number of one byte is looked up: its lowest bit is the sign.
_SMALL = pa.array([byte >> 1 ^ -(byte & 1) for byte in range(0x80)], _LONG)

FAULTS = (IndexError, ValueError, OverflowError, pa.ArrowException)
"""What the methods raise for bytes that are not what they should be; `ValueError` above all."""


class Cursor:
    """Positions in one buffer, `at`, and where each value ends, `limits`. There is at least one."""

    def __init__(self, data: pa.Buffer, at: pa.Array, limits: pa.Array) -> None:
        """`at` and `limits` are `int64` without nulls, and each value begins where the one before ends, or later."""
        self.data = data
        self._bytes = pa.Array.from_buffers(_BYTE, data.size, [None, data])
        self.at = at
        self.limits = limits

    def __len__(self) -> int:
        return len(self.at)

    def part(self, where: pa.Array) -> "Cursor":
        """Return a cursor over some of the values."""
        return Cursor(self.data, self.at.filter(where), self.limits.filter(where))

    def ensure_within(self) -> None:
        """Raise ValueError if a value is shorter than what was read of it."""
        self._ensure_within(self.at)

    def byte(self) -> pa.Array:
        """Return the next byte of each value."""
        found = self._bytes.take(self.at)
        self.at = pc.add(self.at, _ONE)
        return found

    def number(self) -> pa.Array:
        """Return the next number of each value, of 64 bits: seven bits a byte, the lowest first, the sign in bit 0."""
        first = self.byte()
        if limits(first)[1] < 0x80:
            return _SMALL.take(first)
        found = self._unsigned(first.cast(_LONG))
        half = pc.bit_wise_and(pc.shift_right(found, _ONE), _POSITIVE)
        return pc.bit_wise_xor(half, pc.negate(pc.bit_wise_and(found, _ONE)))

    def _unsigned(self, byte: pa.Array) -> pa.Array:
        found = byte
        for shift in range(7, _LONGEST_BITS, 7):
            has_more = pc.greater_equal(byte, _MORE)
            if not pc.any(has_more).as_py():
                return found
            byte = self._next(has_more)
            found = pc.bit_wise_or(pc.bit_wise_and(found, _MASKS[shift]), pc.multiply(byte, _PLACES[shift]))
        if pc.any(pc.greater_equal(byte, _MORE)).as_py():
            raise ValueError("a number does not end")
        return found

    def _next(self, where: pa.Array) -> pa.Array:
        """Return the next byte of each value; 0 for values that `where` leaves out."""
        if pc.all(where).as_py():
            return self.byte().cast(_LONG)
        byte = pc.fill_null(self._bytes.take(pc.if_else(where, self.at, _NOWHERE)), _NO_BYTE)
        self.at = pc.add(self.at, where.cast(_LONG))
        return byte.cast(_LONG)

    def binary(self) -> pa.Array:
        """Return the next bytes of each value, whose length is the number before them."""
        starts, ends = self._past(self.number())
        return self._between(starts, ends)

    def skip_binary(self) -> None:
        self._past(self.number())

    def fixed(self, size: int) -> pa.Buffer:
        """Return the next `size` bytes of all values, one after the other."""
        starts, ends = self._past(pa.scalar(size, _LONG), size)
        return self._between(starts, ends).buffers()[2]

    def skip(self, size: int) -> None:
        self._past(pa.scalar(size, _LONG), size)

    def _past(self, sizes: Any, size: int | None = None) -> tuple[pa.Array, pa.Array]:
        """Move on by `sizes`; return where that began and ended. Raises ValueError if a value is not that long."""
        least, most = limits(sizes) if size is None else (size, size)
        if least < 0 or most > self.data.size:
            raise ValueError("a length is wrong")
        starts, ends = self.at, pc.add(self.at, sizes)
        self._ensure_within(ends)  # before anything is copied: wrong lengths would take all memory
        self.at = ends
        return starts, ends

    def _ensure_within(self, ends: pa.Array) -> None:
        if not pc.all(pc.less_equal(ends, self.limits)).as_py():
            raise ValueError("the value ends too early")

    def _between(self, starts: pa.Array, ends: pa.Array) -> pa.Array:
        """Return the bytes between starts and ends: every second piece of a column that holds all bytes."""
        count = len(starts)
        borders = pc.bit_wise_or(starts, pc.shift_left(ends, _HALF)).buffers()[1]  # start, end, start, end
        pieces = pa.Array.from_buffers(_BINARY, 2 * count - 1, [None, borders, self.data])
        return pieces.take(pa.arange(0, 2 * count, 2))


def limits(column: pa.Array) -> tuple[int, int]:
    """Return the least and the greatest number."""
    found = pc.min_max(column)
    return found[0].as_py(), found[1].as_py()
