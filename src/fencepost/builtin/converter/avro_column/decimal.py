"""Decimals of Avro, numbers of any size with the highest byte first, as decimals of Arrow, of 16 bytes with the lowest
first.
"""

import pyarrow as pa
import pyarrow.compute as pc

_SIZE = 16
_BINARY = pa.binary()
_DIGITS = 38
# What fills a number up, by its size and its sign: at 2 * size, + 1 for a negative one.
_FILL = pa.array([sign * (_SIZE - size) for size in range(_SIZE + 1) for sign in (b"\0", b"\xff")], _BINARY)
_NOTHING = pa.scalar(b"", _BINARY)
_TWO, _MOST = pa.scalar(2, pa.int32()), pa.scalar(_SIZE, pa.int32())


def decimals(found: pa.Array, type_: pa.Decimal128Type) -> pa.Array:
    """Return numbers in bytes as decimals. Raises ArrowInvalid or ValueError for one with too many digits."""
    sizes = pc.binary_length(found)
    if pc.any(pc.greater(sizes, _MOST)).as_py():
        found = pa.array([_shortened(each) for each in found.to_pylist()], _BINARY)
        sizes = pc.binary_length(found)
    first = pc.binary_slice(found, 0, 1)
    is_negative = pc.greater_equal(first, pa.scalar(b"\x80", _BINARY))
    fill = _FILL.take(pc.add(pc.multiply(sizes, _TWO), is_negative.cast(pa.int32())))
    whole = pc.binary_join_element_wise(pc.binary_reverse(found), fill, _NOTHING)
    made = pa.Array.from_buffers(pa.decimal128(_DIGITS, type_.scale), len(found), [None, whole.buffers()[2]])
    made.validate(full=True)  # 16 bytes hold more than 38 digits
    return made.cast(type_)


def _shortened(number: bytes) -> bytes:
    """Return a number in at most 16 bytes. Raises OverflowError if it takes more."""
    return int.from_bytes(number, "big", signed=True).to_bytes(_SIZE, "big", signed=True)
