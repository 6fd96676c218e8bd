"""Encodes Arrow columns as the records of a batch: column by column, or row by row if there are only a few rows.

A record is: its length, attributes (none), timestamp delta, offset delta, key with its length, value with its length,
number of headers, headers. Everything except the bytes themselves is a varint. Each field is a column of bytes. Arrow
joins the columns row by row, which is the only copy. That has a fixed cost, so a few rows, such as the source offsets
of a transaction, are encoded by a plain loop.

A record's numbers are zigzag varints: 7 bits a byte, the lowest first, with the top bit set if more follow. A column of
numbers becomes varints at once. Small ones are looked up in a table. For larger ones a table gives two bytes at a time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec.compress import Codec
from fencepost.kafka.codec.encode_header import Buffer, EncodedBatch
from fencepost.record.binary_column import size_bytes

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


_ATTRIBUTES = b"\0"
_SAME_TIME = b"\0"
_NO_KEY = b"\1"
_NO_HEADERS = b"\0"

FEW = 16
"""Up to this many rows a loop is faster than columns."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Records in order, for one topic. Columns are binary arrays of equal length; `encode_rows.rows` makes them.

    `keys` is None if no row has one. `headers` is None if no row has any; otherwise each row has its headers encoded as
    in a record, with their number. `timestamps` are milliseconds since 1970: a column of int64 without nulls, or one
    number for all rows.
    """

    values: pa.Array
    timestamps: pa.Array | int
    keys: pa.Array | None = None
    headers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def columns(self) -> tuple[pa.Array, ...]:
        """Return the columns of bytes."""
        return tuple(column for column in (self.values, self.keys, self.headers) if column is not None)

    def slice(self, start: int, stop: int) -> "Rows":
        """Return rows `start` up to before `stop`, without copying."""
        if start == 0 and stop == len(self):
            return self
        return self._each(lambda column: column.slice(start, stop - start))

    def take(self, indices: pa.Array) -> "Rows":
        """Return the rows at these indexes, in that order."""
        return self._each(lambda column: column.take(indices))

    def _each(self, part: Callable[[pa.Array], pa.Array]) -> "Rows":
        times = self.timestamps
        return Rows(
            part(self.values),
            times if isinstance(times, int) else part(times),
            None if self.keys is None else part(self.keys),
            None if self.headers is None else part(self.headers),
        )


def encode_batch(rows: Rows, codec: Codec) -> EncodedBatch:
    """Encode rows (at least one) as one batch. It is left uncompressed if compression would not make it smaller."""
    body = (_one_by_one(rows),) if len(rows) <= FEW else _records(rows)
    packed = codec.compress(b"".join(body)) if codec.number else None
    first, newest = _times(rows)
    if packed is None:
        return EncodedBatch(body, len(rows), 0, first, newest)
    return EncodedBatch((packed,), len(rows), codec.number, first, newest)


def _times(rows: Rows) -> tuple[int, int]:
    times = rows.timestamps
    return (times, times) if isinstance(times, int) else (times[0].as_py(), pc.max(times).as_py())


def _one_by_one(rows: Rows) -> bytes:
    count, times = len(rows), rows.timestamps
    keys, headers = (_values(each, count) for each in (rows.keys, rows.headers))
    each_time = [times] * count if isinstance(times, int) else times.to_pylist()
    records: list[bytes] = []
    for index, value in enumerate(rows.values.to_pylist()):
        numbers = varint(each_time[index] - each_time[0]) + varint(index)
        record = _ATTRIBUTES + numbers + _sized(keys[index]) + _sized(value) + (headers[index] or _NO_HEADERS)
        records += varint(len(record)), record
    return b"".join(records)


def _values(data: pa.Array | None, count: int) -> list[bytes | None]:
    return [None] * count if data is None else data.to_pylist()


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _records(rows: Rows) -> tuple[Buffer, ...]:
    """Return the records one after another.

    If no row has headers, each record ends with the number 0. That byte is put in the column of the next record's
    length, because a separate column would cost as much as the value's. So the first byte is superfluous and the last
    missing.
    """
    fields = _fields(rows)
    turned = _NO_HEADERS if rows.headers is None else b""
    length = total([each.width for each in fields] + [len(turned)])
    if isinstance(length, int):
        length = pa.repeat(length, len(rows))
    records = joined((varints(length, before=turned), *fields))
    _, _, data = records.buffers()
    whole = memoryview(data)[len(turned) : size_bytes(records)]
    return (whole, turned) if turned else (whole,)


def _fields(rows: Rows) -> list[EncodedField]:
    """Return the fields after a record's length, without the number of headers if there are none."""
    fields = []
    no_key = _NO_KEY if rows.keys is None else b""
    times = rows.timestamps
    if isinstance(times, int) or pc.all(pc.equal(times, times[0])).as_py():
        fields.append(steps(len(rows), _ATTRIBUTES + _SAME_TIME, no_key))
    else:
        deltas = pc.subtract(times, times[0])
        fields += varints(deltas, before=_ATTRIBUTES), steps(len(rows), b"", no_key)
    if rows.keys is not None:
        fields += varints(lengths(rows.keys)), column(rows.keys)
    fields += varints(lengths(rows.values)), column(rows.values)
    if rows.headers is not None:
        fields.append(column(rows.headers))
    return fields
