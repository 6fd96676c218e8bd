"""What a copy of a log lacks, has twice or has changed."""

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from fencepost.kafka.read.produced import Produced
from fencepost.ledger.copy_check import CopyCheck, aligned
from fencepost.ledger.finding import DifferenceKind, PartitionFindings
from fencepost.ledger.record_stream import RecordStream
from fencepost.record import TopicPartition

MISSING, REPEATED, ALTERED = DifferenceKind.MISSING, DifferenceKind.REPEATED, DifferenceKind.ALTERED
LOG, COPY = TopicPartition("t", 0), TopicPartition("west.t", 0)
COUNT = 3_000
VALUES = [b"line %07d" % number for number in range(COUNT)]


def stream(values: Sequence[bytes], start: int = 0, piece: int = 700) -> RecordStream:
    def pieces():
        for at in range(0, len(values), piece):
            part = pa.array(values[at : at + piece], pa.binary())
            yield Produced((-1, -1), 0, start + at, part, pa.nulls(len(part), pa.binary()), None)

    return RecordStream(pieces())


def compared(copy: Sequence[bytes], log: Sequence[bytes] = VALUES, **how: bool) -> PartitionFindings:
    found = PartitionFindings(LOG, 0, len(log))
    CopyCheck(found, COPY, **how).run(stream(log), stream(copy, piece=333))
    return found


def test_a_true_copy_is_verified() -> None:
    found = compared(VALUES)
    assert (found.differences, found.verified, found.others) == ([], COUNT, 0)


@pytest.mark.parametrize("lost", [0, 1, 1_234, COUNT - 1])
def test_a_record_that_is_lost_is_named(lost: int) -> None:
    found = compared([*VALUES[:lost], *VALUES[lost + 1 :]])
    (difference,) = found.differences
    assert (difference.kind, difference.place, difference.first, difference.records) == (MISSING, LOG, lost, 1)
    assert found.verified == COUNT - 1


def test_a_record_that_is_there_twice_is_named() -> None:
    (difference,) = compared([*VALUES[:500], VALUES[499], *VALUES[500:]]).differences
    assert (difference.kind, difference.place, difference.first) == (REPEATED, COPY, 500)


def test_a_record_that_was_changed_is_named() -> None:
    found = compared([*VALUES[:500], b"other", *VALUES[501:]])
    (difference,) = found.differences
    assert (difference.kind, difference.first, difference.records) == (ALTERED, 500, 1)
    assert found.verified == COUNT - 1


def test_records_of_others_are_counted() -> None:
    found = compared([b"first", *VALUES[:500], b"another's", *VALUES[500:]])
    assert (found.differences, found.verified, found.others) == ([], COUNT, 2)


def test_what_the_copy_has_of_later_records_is_no_difference() -> None:
    assert compared([*VALUES, b"later"]).differences == []


def test_records_that_are_missing_at_the_end_are_only_lost_if_the_copy_can_be_read_to_its_end() -> None:
    (difference,) = compared(VALUES[:-10]).differences
    assert (difference.kind, difference.first, difference.records) == (MISSING, COUNT - 10, 10)
    found = compared(VALUES[:-10], is_whole=False)
    assert (found.differences, found.is_complete) == ([], False)


def test_a_compacted_copy_may_lack_records_but_not_change_them() -> None:
    (difference,) = compared([*VALUES[10:500], b"other", *VALUES[501:]], may_lack=True).differences
    assert (difference.kind, difference.first) == (ALTERED, 500)


def test_equal_records_are_counted() -> None:
    same = [b"same"] * COUNT
    (difference,) = compared(same[:-1], same).differences
    assert (difference.kind, difference.records) == (MISSING, 1)


def test_all_losses_of_a_few_records_are_found_wherever_they_are() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    lost = sorted(random.Random(seed).sample(range(COUNT), 40))
    found = compared([value for at, value in enumerate(VALUES) if at not in lost])
    assert {each.kind for each in found.differences} == {MISSING}
    assert sorted(at for each in found.differences for at in range(each.first, each.last + 1)) == lost
    assert found.verified == COUNT - len(lost)


def test_keys_and_headers_are_compared() -> None:
    def with_fields(key: bytes, header: bytes) -> RecordStream:
        column = pa.array([b"v"], pa.binary())
        return RecordStream(iter([Produced((-1, -1), 0, 0, column, pa.array([key]), [[("h", header)]])]))

    for key, header, is_same in ((b"k", b"h", True), (b"K", b"h", False), (b"k", b"H", False)):
        found = PartitionFindings(LOG, 0, 1)
        CopyCheck(found, COPY).run(with_fields(b"k", b"h"), with_fields(key, header))
        assert (not found.differences) is is_same


@pytest.mark.parametrize("first", [0, 5, 2_000, COUNT - 1])
def test_a_copy_that_begins_later_is_aligned(first: int) -> None:
    log, copy = stream(VALUES), stream(VALUES[first:], start=40)
    assert aligned(log, copy) == first
    assert (log.offsets[0], copy.offsets[0]) == (first, 40)


def test_a_copy_of_something_else_is_not_aligned() -> None:
    assert aligned(stream(VALUES), stream([b"other"] * 10)) is None
    assert aligned(stream(VALUES), stream([])) is None
