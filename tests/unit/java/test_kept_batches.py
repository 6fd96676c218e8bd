"""Which raw records of a sink are still there to be reported."""

import pyarrow as pa

from fencepost.java.kept_batches import KeptBatches
from fencepost.record import BinaryColumn, Repeated, SinkBatch, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(*records: tuple[TopicPartition, int]) -> SinkBatch:
    count = len(records)
    none = Repeated(None, count)
    return SinkBatch(
        ["t"] * count,
        [place.partition for place, _ in records],
        [offset for _, offset in records],
        BinaryColumn(pa.array([b"%d" % offset for _, offset in records], pa.binary())),
        none,
        [b"k"] * count,
        none,
        none,
        [place for place, _ in records],
    )


def kept(*batches: SinkBatch) -> KeptBatches:
    made = KeptBatches()
    for each in batches:
        made.add(each)
    return made


def test_a_record_is_found_by_place_and_offset() -> None:
    found = kept(batch((A, 1), (B, 1)), batch((A, 2))).find(B, 1)
    assert found is not None
    assert (found.at, found.kafka_offset, found.value, found.key) == (B, 1, b"1", b"k")


def test_a_record_that_was_never_there_is_not_found() -> None:
    assert kept(batch((A, 1))).find(A, 2) is None
    assert kept(batch((A, 1))).find(B, 1) is None


def test_a_batch_is_kept_until_all_of_its_records_are_covered() -> None:
    batches = kept(batch((A, 1), (B, 7)))
    batches.forget_below({A: 2})
    assert batches.find(A, 1) is not None
    batches.forget_below({A: 2, B: 7})
    assert batches.find(B, 7) is not None
    batches.forget_below({A: 2, B: 8})
    assert batches.find(B, 7) is None
    assert batches.size_bytes == 0


def test_released_partitions_are_forgotten_and_the_others_kept() -> None:
    batches = kept(batch((A, 1), (B, 1)))
    batches.forget([A])
    assert batches.find(A, 1) is None
    assert batches.find(B, 1) is not None
    assert batches.size_bytes == 2
