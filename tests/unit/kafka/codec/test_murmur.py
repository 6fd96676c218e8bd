"""Keys go where Java's producers send them."""

from unittest import mock

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from fencepost.kafka.codec import encode_cut

KEYS = st.lists(st.one_of(st.none(), st.binary(max_size=40)))


def expected(keys: list[bytes | None], count: int) -> list[int | None]:
    return [None if key is None else (murmur2(key) & 0x7FFFFFFF) % count for key in keys]


@given(keys=KEYS, count=st.integers(1, 100))
@example(keys=[b"", b"a", b"ab", b"abc", b"abcd", b"abcde"], count=7)
@example(keys=[b"21", b"foobar", b"a-little-bit-long-string", b"a-little-bit-longer-string"], count=1_000)
def test_column_of_keys_gets_the_partitions_of_its_single_keys(keys: list[bytes | None], count: int) -> None:
    column = pa.array(keys, pa.binary())
    assert encode_cut.partitions(column, count).to_pylist() == expected(keys, count)
    with mock.patch.object(encode_cut, "_MANY", 0):  # as in a column of many keys
        assert encode_cut.partitions(column, count).to_pylist() == expected(keys, count)


def test_slice_of_a_column_is_hashed_like_a_separate_column() -> None:
    keys = [b"k%d" % index for index in range(50)]
    part = pa.array([*keys, None], pa.binary()).slice(20, 31)
    with mock.patch.object(encode_cut, "_MANY", 0):
        assert encode_cut.partitions(part, 5).to_pylist() == [*expected([*keys[20:]], 5), None]


def test_hashes_equal_those_in_javas_own_tests() -> None:
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    found = encode_cut.hashes(pa.array(list(known), pa.binary())).view(pa.int32()).to_pylist()
    assert found == list(known.values())
