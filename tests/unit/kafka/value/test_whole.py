"""Records in whole batches, which are decoded when a caller reads them."""

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.kafka.codec.decode import DecodedRecord
from fencepost.kafka.value.whole import WholeBatches, WholeFetched
from fencepost.record import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("u", 3)


@dataclass
class Batch:
    """A batch that may be looked at, or not."""

    offsets: Sequence[int]
    is_closed: bool = False
    size_bytes: int = 100
    times_ms: tuple[int, int] = (5, 6)

    @property
    def count(self) -> int:
        return len(self.offsets)

    def records(self) -> list[DecodedRecord]:
        assert not self.is_closed, "nobody is to look"
        return [DecodedRecord(n, at * 10, None, b"%d" % at) for n, at in enumerate(self.offsets)]


def batches(*, is_closed: bool = True) -> WholeBatches:
    return WholeBatches([
        (FIRST, Batch(range(4, 7), is_closed)),
        (FIRST, Batch([9, 11], is_closed)),
        (SECOND, Batch(range(2), is_closed)),
    ])  # fmt: skip


def test_positions_and_sizes_are_known_without_decoding_records() -> None:
    fetched = WholeFetched(batches())
    assert len(fetched) == 7
    assert list(fetched.offsets) == [4, 5, 6, 9, 11, 0, 1]
    assert list(fetched.offsets[2:6]) == [6, 9, 11, 0]
    assert fetched.offsets[-3] == 11
    assert (fetched.first_offsets(), fetched.next_offsets()) == ({FIRST: 4, SECOND: 0}, {FIRST: 12, SECOND: 2})
    assert list(fetched.places) == [FIRST] * 5 + [SECOND] * 2
    assert (fetched.size_bytes(0, 5), fetched.size_bytes(5, 7)) == (200, 100)
    assert fetched.times_ms(5, 7, 100) == [5, 6]
    left = fetched.without({FIRST})
    assert left.next_offsets() == {SECOND: 2}


def test_values_of_whole_batches_are_decoded_on_access() -> None:
    fetched = WholeFetched(batches(is_closed=False))
    assert list(fetched.values) == [b"4", b"5", b"6", b"9", b"11", b"0", b"1"]
    assert fetched.values[2:4] == [b"6", b"9"]
    assert fetched.timestamps[1] == 50


def test_each_batch_gets_the_callbacks_of_its_own_records() -> None:
    calls = [lambda error, message: None for _ in range(3)]
    told = {4: calls[0], 5: calls[1], 6: calls[2]}
    placed = batches().placed(["a"] * 5 + ["b"] * 2, [0] * 5 + [3] * 2, told)
    assert [each.place for each in placed] == [TopicPartition("a", 0)] * 2 + [TopicPartition("b", 3)]
    assert [dict(each.callbacks) for each in placed] == [{}, {1: calls[0]}, {0: calls[1], 1: calls[2]}]
