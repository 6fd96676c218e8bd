"""Finds the partitions that Java's producers choose for keys: murmur2 of all keys of a column at once."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import murmur2

_WORD = 4
_MANY: Final = 5_000
_LONGEST: Final = 32  # bytes of a key
_UINT32 = pa.uint32()


def _number(value: int) -> pa.Scalar:
    return pa.scalar(value, _UINT32)


_M = _number(0x5BD1E995)
_SEED = _number(0x9747B28C)
_POSITIVE = _number(0x7FFFFFFF)
_ROUND, _FIRST, _SECOND = _number(24), _number(13), _number(15)
_EMPTY = pa.scalar(b"", pa.binary())


def partitions(keys: pa.Array, count: int) -> pa.Array:
    """Return the partition of each binary key, out of `count` partitions, as int32; null for a null.

    Few keys, and long ones, are hashed faster one by one (`python -m bench.encode`).
    """
    if len(keys) < _MANY or (pc.max(pc.binary_length(keys)).as_py() or 0) > _LONGEST:
        return pa.array([None if key is None else murmur2(key, count) for key in keys.to_pylist()], pa.int32())
    positive = pc.bit_wise_and(hashes(keys), _POSITIVE)
    whole = pc.multiply(pc.divide(positive, _number(count)), _number(count))
    return pc.subtract(positive, whole).cast(pa.int32())


def hashes(keys: pa.Array) -> pa.Array:
    """Return the hash of each key as uint32; null for a null. One long key makes all of them slow.

    This hashes the first word of all keys, then the second, and so on. Zeros fill the last word of a key.
    """
    sizes = pc.binary_length(keys).cast(_UINT32)
    shortest, longest = (size.as_py() or 0 for size in pc.min_max(sizes).values())
    count = -(-longest // _WORD)
    words = _words(keys, count)
    mixed = _times_m(_xor_shifted(_times_m(words), _ROUND))
    state = pc.bit_wise_xor(sizes, _SEED)
    for index in range(count):
        at = _every(index, count, len(keys))
        whole = pc.bit_wise_xor(_times_m(state), mixed.take(at))
        if _WORD * (index + 1) <= shortest:
            state = whole
            continue
        rest = _times_m(pc.bit_wise_xor(state, words.take(at)))
        is_whole = pc.greater_equal(sizes, _number(_WORD * (index + 1)))
        is_rest = pc.greater(sizes, _number(_WORD * index))
        state = pc.if_else(is_whole, whole, pc.if_else(is_rest, rest, state))
    return _xor_shifted(_times_m(_xor_shifted(state, _FIRST)), _SECOND)


def _words(keys: pa.Array, count: int) -> pa.Array:
    present = pc.fill_null(keys, _EMPTY) if keys.null_count else keys
    padded = pc.ascii_rpad(present.view(pa.string()), count * _WORD, "\0")
    return pa.Array.from_buffers(_UINT32, len(keys) * count, [None, padded.buffers()[2]])


def _every(first: int, step: int, count: int) -> pa.Array:
    sums = pc.cumulative_sum(pa.repeat(pa.scalar(step, pa.int64()), count))
    return pc.subtract(sums, pa.scalar(step - first, pa.int64()))


def _times_m(numbers: pa.Array) -> pa.Array:
    return pc.multiply(numbers, _M)  # keeps the low 32 bits, as Java does


def _xor_shifted(numbers: pa.Array, bits: pa.Scalar) -> pa.Array:
    return pc.bit_wise_xor(numbers, pc.shift_right(numbers, bits))
