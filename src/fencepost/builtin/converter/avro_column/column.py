"""Decoders of columns. Each reads one field of many values, of a writer's type, as a column of a reader's type.

They raise FAULTS if one of the values is wrong, without saying which: `resolution` finds it.

A `Cursor` is a position in each of many values, which moves on as their fields are read. Arrow does all of the work:
one operation a step for all values, never one for each. Positions increase from value to value, so pieces of bytes are
cut out of one buffer by its own offsets.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_LONG_SIZE, _BYTE, _BINARY = pa.int64(), pa.uint8(), pa.binary()
_ONE, _HALF, _POSITIVE = (pa.scalar(number, _LONG_SIZE) for number in (1, 32, (1 << 63) - 1))
_MORE, _NOWHERE, _NO_BYTE = pa.scalar(0x80, _LONG_SIZE), pa.scalar(None, _LONG_SIZE), pa.scalar(0, _BYTE)
_LONGEST_BITS = 64
# The value of the bit at this position. A shift is not enough: Arrow does not shift into the sign bit.
_PLACES = [pa.scalar(1 << up, _LONG_SIZE) for up in range(_LONGEST_BITS - 1)] + [pa.scalar(-(1 << 63), _LONG_SIZE)]
_MASKS = [pa.scalar((1 << bits) - 1, _LONG_SIZE) for bits in range(_LONGEST_BITS)]
# A number of one byte is looked up: its lowest bit is the sign.
_SMALL = pa.array([byte >> 1 ^ -(byte & 1) for byte in range(0x80)], _LONG_SIZE)

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
        found = self._unsigned(first.cast(_LONG_SIZE))
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
            return self.byte().cast(_LONG_SIZE)
        byte = pc.fill_null(self._bytes.take(pc.if_else(where, self.at, _NOWHERE)), _NO_BYTE)
        self.at = pc.add(self.at, where.cast(_LONG_SIZE))
        return byte.cast(_LONG_SIZE)

    def binary(self) -> pa.Array:
        """Return the next bytes of each value, whose length is the number before them."""
        starts, ends = self._past(self.number())
        return self._between(starts, ends)

    def skip_binary(self) -> None:
        self._past(self.number())

    def fixed(self, size: int) -> pa.Buffer:
        """Return the next `size` bytes of all values, one after the other."""
        starts, ends = self._past(pa.scalar(size, _LONG_SIZE), size)
        return self._between(starts, ends).buffers()[2]

    def skip(self, size: int) -> None:
        self._past(pa.scalar(size, _LONG_SIZE), size)

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


_LONG = pa.int64()
_NULL = pa.scalar(None, _LONG)


class Column(ABC):
    """Decodes one field. `type` is that of the columns that `read` returns."""

    type: pa.DataType

    @abstractmethod
    def read(self, at: Cursor) -> pa.Array:
        """Return the field of each value, and move on to what follows it."""

    def skip(self, at: Cursor) -> None:
        """Move on to what follows the field."""
        self.read(at)


class Null(Column):
    """Takes no bytes."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_

    def read(self, at: Cursor) -> pa.Array:
        return pa.nulls(len(at), self.type)


class Constant(Column):
    """A field that the writer does not have: its default."""

    def __init__(self, value: pa.Scalar) -> None:
        self._value = value
        self.type = value.type

    def read(self, at: Cursor) -> pa.Array:
        return pa.repeat(self._value, len(at))


class Boolean(Column):
    type = pa.bool_()

    def read(self, at: Cursor) -> pa.Array:
        found = at.byte()
        if limits(found)[1] > 1:
            raise ValueError("a boolean is neither 0 nor 1")
        return found.cast(self.type)

    def skip(self, at: Cursor) -> None:
        at.byte()


class Number(Column):
    """An int or a long, and what a reader takes for it: a wider integer or a floating point number."""

    def __init__(self, writer: pa.DataType, reader: pa.DataType) -> None:
        self._writer = writer
        self.type = reader

    def read(self, at: Cursor) -> pa.Array:
        found = at.number()
        if self._writer != _LONG:
            found = found.cast(self._writer)  # which raises if one is too large
        return found if found.type == self.type else found.cast(self.type, safe=False)

    def skip(self, at: Cursor) -> None:
        at.number()


class Floating(Column):
    """A float or a double; a reader may take a double for a float."""

    def __init__(self, writer: pa.DataType, reader: pa.DataType) -> None:
        self._writer = writer
        self._size = writer.bit_width // 8
        self.type = reader

    def read(self, at: Cursor) -> pa.Array:
        found = pa.Array.from_buffers(self._writer, len(at), [None, at.fixed(self._size)])
        return found if self._writer == self.type else found.cast(self.type)

    def skip(self, at: Cursor) -> None:
        at.skip(self._size)


class Binary(Column):
    """Bytes or text, as bytes or text."""

    def __init__(self, reader: pa.DataType) -> None:
        self.type = reader

    def read(self, at: Cursor) -> pa.Array:
        found = at.binary()
        return text(found) if self.type == pa.string() else found

    def skip(self, at: Cursor) -> None:
        at.skip_binary()


class Fixed(Column):
    """So many bytes."""

    type = pa.binary()

    def __init__(self, size: int) -> None:
        self._size = size

    def read(self, at: Cursor) -> pa.Array:
        if not self._size:
            return pa.repeat(pa.scalar(b"", self.type), len(at))
        ends = pa.arange(0, (len(at) + 1) * self._size, self._size).cast(pa.int32())
        return pa.Array.from_buffers(self.type, len(at), [None, ends.buffers()[1], at.fixed(self._size)])

    def skip(self, at: Cursor) -> None:
        at.skip(self._size)


class Enum(Column):
    """A symbol. `symbols`: what the reader takes for each of the writer's; None if it takes nothing for it."""

    type = pa.string()

    def __init__(self, symbols: Sequence[str | None]) -> None:
        self._symbols = pa.array(symbols, self.type)

    def read(self, at: Cursor) -> pa.Array:
        found = at.number()
        if limits(found)[0] < 0:
            raise ValueError("the number of a symbol is negative")
        names = self._symbols.take(found)
        if names.null_count:
            raise ValueError("the reader's enum does not have a symbol")
        return names

    def skip(self, at: Cursor) -> None:
        at.number()


class Converted(Column):
    """Another column's values, converted."""

    def __init__(self, raw: Column, type_: pa.DataType, convert: Callable[[pa.Array], pa.Array]) -> None:
        self._raw = raw
        self._convert = convert
        self.type = type_

    def read(self, at: Cursor) -> pa.Array:
        return self._convert(self._raw.read(at))

    def skip(self, at: Cursor) -> None:
        self._raw.skip(at)


class Union(Column):
    """One of some columns, all of the same type, chosen by a number."""

    def __init__(self, branches: Sequence[Column], type_: pa.DataType) -> None:
        self._branches = branches
        self.type = type_

    def read(self, at: Cursor) -> pa.Array:
        chosen = at.number()
        least, most = limits(chosen)
        if least < 0 or most >= len(self._branches):
            raise ValueError("the number of a union's branch is wrong")
        if least == most:
            return self._branches[least].read(at)
        found, ends, place, count = [], [], None, 0
        for number, branch in enumerate(self._branches):
            is_chosen = pc.equal(chosen, pa.scalar(number, _LONG))
            part = at.part(is_chosen)
            if not len(part):
                continue
            found.append(branch.read(part))
            ends.append(part.at)
            place = _places(is_chosen, count, place)
            count += len(part)
        at.at = pa.concat_arrays(ends).take(place)
        return pa.concat_arrays(found).take(place)


class Unfit(Column):
    """A branch of a union that the reader cannot take; an error only if a value has it."""

    def __init__(self, type_: pa.DataType, reason: str) -> None:
        self.type = type_
        self._reason = reason

    def read(self, at: Cursor) -> pa.Array:
        raise ValueError(self._reason)


class Member(Column):
    """One member of a struct that has one for each branch of a reader's union; the others are null."""

    def __init__(self, own: Column, name: str, type_: pa.StructType) -> None:
        self._own = own
        self._name = name
        self.type = type_

    def read(self, at: Cursor) -> pa.Array:
        own = self._own.read(at)
        columns = [own if field.name == self._name else pa.nulls(len(own), field.type) for field in self.type]
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def skip(self, at: Cursor) -> None:
        self._own.skip(at)


class Struct(Column):
    """Fields, in the writer's order: each has its place among the reader's, or None if the reader does not have it."""

    def __init__(self, fields: Sequence[tuple[str, Column, int | None]], type_: pa.StructType) -> None:
        """Store the fields; those that the writer does not have come last."""
        self._fields = fields
        self.type = type_

    def read(self, at: Cursor) -> pa.Array:
        columns: list[pa.Array | None] = [None] * self.type.num_fields
        count = len(at)
        for name, column, place in self._fields:
            try:
                if place is None:
                    column.skip(at)
                else:
                    columns[place] = column.read(at)
            except AvroValueError as error:
                raise AvroValueError(f"{name}.{error}") from error
            except FAULTS as error:
                raise AvroValueError(f"{name}: {reason(error)}") from error
        if not columns:
            return pa.array([{}] * count, self.type)
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def skip(self, at: Cursor) -> None:
        for _, column, _ in self._fields:
            column.skip(at)


class AvroValueError(ValueError):
    """A value is not what its schema says. The text begins with the path of the field."""


def reason(error: Exception) -> str:
    """Return the fault of a value as text, from one of FAULTS."""
    return "the value ends too early" if isinstance(error, IndexError) else str(error)


def text(found: pa.Array) -> pa.Array:
    """Return bytes as text. Raises ValueError for bytes that are not UTF-8."""
    made = found.view(pa.string())
    try:
        made.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError("a text is not UTF-8") from error
    return made


def _places(where: pa.Array, first: int, others: pa.Array | None) -> pa.Array:
    """Return numbers from `first` on where `where` is true, and `others` elsewhere."""
    numbers = pc.add(pc.cumulative_sum(where.cast(_LONG)), pa.scalar(first - 1, _LONG))
    return pc.if_else(where, numbers, _NULL if others is None else others)
