import pytest

from fencepost.kafka.partitioner import murmur2, partition_for


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_like_java(data: bytes, expected: int):
    assert murmur2(data) == expected & 0xFFFFFFFF


def test_partition_ignores_the_sign_of_the_hash():
    assert partition_for(b"21", 5) == (-973932308 & 0x7FFFFFFF) % 5
