"""Decodes record batches to columns, for bulk readers. Arrow computes everything except where records start.

Python steps from record to record by their lengths. Arrow then decodes the fields of all records of many batches
together: one Arrow operation per field instead of one Python step per record.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.codec.compress import decompressed
from fencepost.kafka.codec.decode import headers_at
from fencepost.kafka.codec.encode_header import HEADER, Buffer, CorruptBatchError
from fencepost.record import HeaderBytes

FIELDS = ("key", "value", "headers")

_CODEC, _LOG_APPEND_TIME = 0x07, 0x08
_BOOL, _INT, _LONG, _BYTE = pa.bool_(), pa.int32(), pa.int64(), pa.uint8()
_MORE, _ONE, _NONE, _HALF, _POSITIVE = (pa.scalar(number, _LONG) for number in (0x80, 1, 0, 32, (1 << 63) - 1))
_STEP, _NOWHERE, _NO_BYTE = pa.scalar(1, _INT), pa.scalar(None, _INT), pa.scalar(0, _BYTE)
_SIGN = pa.scalar(1, _BYTE)
# The value of a varint's first byte, and of its second, before the lowest bit is taken as the sign.
_FIRST = pa.array([byte & 0x7F for byte in range(256)], _LONG)
_SECOND = pa.array([byte << 7 for byte in range(128)], _LONG)
_MOST_BYTES = (1 << 31) - 1  # for the offsets of Arrow's columns
_LONGEST_BITS = 64
# The value of the bit at this position. A shift is not enough: Arrow does not shift into the sign bit.
_PLACES = [pa.scalar(1 << up, _LONG) for up in range(_LONGEST_BITS - 1)] + [pa.scalar(-(1 << 63), _LONG)]
_WALK = 64  # records that are stepped through before it is checked again whether all have one size
_MORE_ALIKE = 8
_A_PIECE = 100  # lengths that are compared in the time in which one piece is found
_LEAST_STEPS = 1 << 14


class DecodedColumns(NamedTuple):
    """Records in order, as Arrow arrays. `headers` is None if no record has any.

    `timestamps` are milliseconds. `is_append_time` says for each whether the broker has set it.
    """

    offsets: Any
    timestamps: Any
    is_append_time: Any
    keys: Any
    values: Any
    headers: list[Sequence[HeaderBytes]] | None

    def __len__(self) -> int:
        return len(self.offsets)


def decoded_columns(batches: Sequence[memoryview], wanted: Collection[str] = FIELDS) -> DecodedColumns:
    """Decode batches of the newest format, as a broker sent them, to records with the offsets of their log.

    Each batch must have at least one record, and its checksum must be verified already. Raises CorruptBatchError if the
    bytes are not valid records. Columns of FIELDS that are not in `wanted` are None.
    """
    heads = [HEADER.unpack_from(view) for view in batches]
    try:
        bodies = [
            decompressed(head[5] & _CODEC, view[HEADER.size :]) for head, view in zip(heads, batches, strict=True)
        ]
        return _columns(heads, bodies, wanted)
    except (IndexError, ValueError, OSError, pa.ArrowException) as error:
        raise CorruptBatchError(
            f"The records of the batches at offsets {heads[0][0]} to {heads[-1][0]} cannot be read: {error}"
        ) from error


def _columns(heads: Sequence[Any], bodies: Sequence[Buffer], wanted: Collection[str]) -> DecodedColumns:
    data = b"".join(bodies)
    _ensure(len(data) <= _MOST_BYTES)
    counts = [head[-1] for head in heads]
    _ensure(min(counts) > 0)
    fields = _Fields(data, _starts(data, counts, list(accumulate(map(len, bodies)))))
    later = fields.number()
    # Offsets increase from record to record. If last - first matches the number of records, none is missing.
    further = fields.steps(counts) if all(head[6] == head[-1] - 1 for head in heads) else fields.number()
    keys, values = fields.binary(is_wanted="key" in wanted), fields.binary(is_wanted="value" in wanted)
    headers = fields.headers(is_wanted="headers" in wanted)
    is_append_time = [bool(head[5] & _LOG_APPEND_TIME) for head in heads]
    times, whose = pc.add(_each([head[7] for head in heads], counts, _LONG), later), _each(is_append_time, counts)
    if any(is_append_time):
        times = pc.if_else(whose, _each([head[8] for head in heads], counts, _LONG), times)
    offsets = pc.add(_each([head[0] for head in heads], counts, _LONG), further)
    return DecodedColumns(offsets, times, whose, keys, values, headers)


def _starts(data: bytes, counts: Sequence[int], ends: Sequence[int]) -> pa.Array:
    starts: list[pa.Array] = []
    # By a batch's number of records and bytes. True: one such batch was seen; its lengths are kept if another comes.
    # False: two of them differ, or comparing takes longer than finding, and no more are compared.
    seen: dict[tuple[int, int], _Lengths | bool] = {}
    at = 0
    for count, end in zip(counts, ends, strict=True):
        alike = count, end - at
        lengths = seen.get(alike, False)
        if isinstance(lengths, _Lengths) and lengths.are_in(data[at:end]):
            starts.append(pc.add(lengths.starts, pa.scalar(at, _INT)))
        else:
            before = len(starts)
            _ensure(_find(data, starts, count, at) == end)
            is_kept = lengths is True and count <= _A_PIECE * (len(starts) - before)
            seen[alike] = _Lengths(data[at:end], starts[before:], at) if is_kept else alike not in seen
        at = end
    return pa.concat_arrays(starts)


class _Lengths:
    """The lengths of the records of a batch. If another batch has the same bytes at their positions, its records start
    at the same positions.

    This holds because the first record starts where its length ends, its length gives its end, and the next starts
    there.
    """

    def __init__(self, batch: bytes, starts: list[pa.Array], at: int) -> None:
        """`starts` are the record starts of the batch, which begins at `at`."""
        self.starts = pc.subtract(pa.concat_arrays(starts), pa.scalar(at, _INT))
        places: list[int] = []
        end = 0
        for start in self.starts.to_pylist():
            places += range(end, start)
            end = start + _length(batch, end)[0]
        self._pick = itemgetter(*places)
        self._bytes = self._pick(batch)

    def are_in(self, batch: bytes) -> bool:
        """Return whether a batch with as many records and bytes has these lengths."""
        return bool(self._pick(batch) == self._bytes)


def _find(data: bytes, starts: list[pa.Array], count: int, at: int) -> int:
    """Add the starts of `count` records, each after its length. Returns where the last record ends.

    Records of equal size are found at once. If sizes differ, this is tried less and less often.
    """
    walk = _WALK
    while count:
        run, size, width = _alike(data, at, count)
        starts.append(pa.arange(at + width, at + run * size, size).cast(_INT))
        at, count = at + run * size, count - run
        walk = min(count, _WALK if run >= _WALK else 2 * walk)
        if walk:
            walked: list[int] = []
            at, count = _walked(data, walked, walk, at), count - walk
            starts.append(pa.array(walked, _INT))
    return at


def _alike(data: bytes, at: int, most: int) -> tuple[int, int, int]:
    """Return how many records from `at` on, up to `most`, have the size of the first; that size; and the length's size.

    If a record has the same length bytes as the first, the next record starts right after it. So this compares the
    bytes at that distance.
    """
    length, start = _length(data, at)
    size = start + length - at
    run = 1
    while run < most:
        look = min(most, _MORE_ALIKE * run)
        found = min(_leading(data[at + i : at + i + look * size : size], data[at + i]) for i in range(start - at))
        run = max(run, found)
        if found < look:
            break
    return run, size, start - at


def _leading(data: bytes, byte: int) -> int:
    return len(data) - len(data.lstrip(bytes((byte,))))


def _walked(data: bytes, starts: list[int], count: int, at: int) -> int:
    add = starts.append
    for _ in range(count):
        length = data[at]
        if length < 0x80:
            at += 1
        else:
            more = data[at + 1]
            if more < 0x80:
                at += 2
                length = length & 0x7F | more << 7
            else:
                length, at = _length(data, at)
                length <<= 1
        add(at)
        at += length >> 1
    return at


def _length(data: bytes, at: int) -> tuple[int, int]:
    length = shift = 0
    for stop in range(at, at + 5):
        length |= (data[stop] & 0x7F) << shift
        if data[stop] < 0x80:
            return length >> 1, stop + 1
        shift += 7
    raise ValueError("a record's length does not end")


def _each(numbers: Sequence[Any], counts: Sequence[int], kind: pa.DataType = _BOOL) -> Any:
    if all(number == numbers[0] for number in numbers):
        return pa.repeat(pa.scalar(numbers[0], kind), sum(counts))
    ends = pa.array(list(accumulate(counts)), _INT)
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, pa.array(numbers, kind)))


class _Fields:
    """Decodes all records field by field. It holds the current position in each record."""

    def __init__(self, data: bytes, starts: pa.Array) -> None:
        self._data = data
        self._buffer = pa.py_buffer(data)
        self._bytes = pa.Array.from_buffers(_BYTE, len(data), [None, self._buffer])
        self._starts = starts
        self._at = pc.add(self._starts, _STEP)  # after the attributes

    def number(self) -> Any:
        """Return the next number of each record: a varint with the sign in its lowest bit."""
        first = self._bytes.take(self._at)
        found = self._unsigned(first)
        half = pc.bit_wise_and(pc.shift_right(found, _ONE), _POSITIVE)
        if not pc.max(pc.bit_wise_and(first, _SIGN)).as_py():
            return half
        return pc.bit_wise_xor(half, pc.negate(pc.bit_wise_and(found, _ONE)))

    def steps(self, counts: Sequence[int]) -> Any:
        """Return the next number of each record, which must be 0, 1, 2, … within each group of `counts` records.

        Raises ValueError if they are not, as far as their first bytes show.
        """
        steps = _steps(max(_LEAST_STEPS, 1 << (max(counts) - 1).bit_length()))
        firsts, widths, found = (pa.concat_arrays([each.slice(0, count) for count in counts]) for each in steps)
        _ensure(self._bytes.take(self._at).equals(firsts))
        self._at = pc.add(self._at, widths)
        return found

    def _unsigned(self, first: Any) -> Any:
        byte, self._at = first, pc.add(self._at, _STEP)
        least, most = _range(byte)
        if most < 0x80:
            return pa.repeat(pa.scalar(least, _LONG), len(byte)) if least == most else byte.cast(_LONG)
        found = _FIRST.take(byte)
        if least >= 0x80:
            byte = self._bytes.take(self._at)
            if _range(byte)[1] < 0x80:
                self._at = pc.add(self._at, _STEP)
                return pc.add(found, _SECOND.take(byte))
            byte = first
        byte = byte.cast(_LONG)
        for shift in range(7, _LONGEST_BITS, 7):
            has_more = pc.greater_equal(byte, _MORE)
            if not pc.any(has_more).as_py():
                return found
            byte = self._next(has_more)
            found = pc.bit_wise_and(found, pa.scalar((1 << shift) - 1, _LONG))
            found = pc.bit_wise_or(found, pc.multiply(byte, _PLACES[shift]))
        if pc.any(pc.greater_equal(byte, _MORE)).as_py():
            raise ValueError("a number does not end")
        return found

    def _next(self, where: Any) -> Any:
        """Return the next byte of each record; 0 for records that `where` leaves out."""
        if pc.all(where).as_py():
            byte = self._bytes.take(self._at)
            self._at = pc.add(self._at, _STEP)
        else:
            byte = pc.fill_null(self._bytes.take(pc.if_else(where, self._at, _NOWHERE)), _NO_BYTE)
            self._at = pc.add(self._at, where.cast(_INT))
        return byte.cast(_LONG)

    def binary(self, *, is_wanted: bool) -> Any:
        """Return the next bytes field of each record; null if it has none."""
        sizes, is_null = self.number(), None
        least = pc.min(sizes).as_py()
        if least < 0:
            _ensure(least == -1)
            if pc.max(sizes).as_py() < 0:
                return pa.nulls(len(sizes), pa.binary()) if is_wanted else None
            is_null = pc.less(sizes, _NONE)
            sizes = pc.if_else(is_null, _NONE, sizes)
        starts = self._at.cast(_LONG)
        ends = pc.add(starts, sizes)
        self._ensure_apart(starts, ends)
        self._at = ends.cast(_INT)
        if not is_wanted:
            return None
        found = self._between(starts, ends)
        return found if is_null is None else pc.if_else(is_null, pa.scalar(None, pa.binary()), found)

    def headers(self, *, is_wanted: bool) -> list[Sequence[HeaderBytes]] | None:
        """Return the headers of each record, which are its last field; None if no record has any."""
        before = self._at
        has_any = pc.max(self._unsigned(self._bytes.take(before))).as_py() > 0
        self._ensure_apart(self._starts, self._at)
        return [headers_at(self._data, at)[0] for at in before.to_pylist()] if is_wanted and has_any else None

    def _between(self, starts: Any, ends: Any) -> Any:
        """Return the bytes between starts and ends: every second piece of a column that holds all bytes.

        Each start must be at or after the previous end.
        """
        count = len(starts)
        borders = pc.bit_wise_or(starts, pc.shift_left(ends, _HALF)).buffers()[1]  # start, end, start, end
        pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, borders, self._buffer])
        return pieces.take(pa.arange(0, 2 * count, 2))

    def _ensure_apart(self, starts: Any, ends: Any) -> None:
        """Raise ValueError unless each piece ends before the next starts: otherwise Arrow would read out of bounds."""
        _ensure(ends[-1].as_py() <= len(self._data))
        _ensure(pc.all(pc.less_equal(ends[:-1], starts[1:]), min_count=0).as_py())


def _range(column: pa.Array) -> tuple[int, int]:
    found = pc.min_max(column)
    return found[0].as_py(), found[1].as_py()


@lru_cache(maxsize=4)
def _steps(count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the first bytes of the varints of 0, 1, 2, …, the size of each varint, and the numbers."""
    doubled = range(0, 2 * count, 2)
    firsts = bytes(number if number < 0x80 else number & 0x7F | 0x80 for number in doubled)
    widths = [max(1, -(-number.bit_length() // 7)) for number in doubled]
    return pa.array(firsts, _BYTE), pa.array(widths, _INT), pa.arange(0, count)


def _ensure(is_right: bool) -> None:
    if not is_right:
        raise ValueError("a length is wrong")
