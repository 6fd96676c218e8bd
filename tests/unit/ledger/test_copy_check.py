"""What a copy of a log lacks, has twice or has changed."""

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from fencepost.kafka.read.produced import Produced
from fencepost.ledger.finding import DifferenceKind, PartitionFindings
from fencepost.ledger.mirror_audit import _WINDOW, CopyCheck, RecordStream, aligned
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


def test_duplicated_record_is_named() -> None:
    (difference,) = compared([*VALUES[:500], VALUES[499], *VALUES[500:]]).differences
    assert (difference.kind, difference.place, difference.first) == (REPEATED, COPY, 500)


def test_a_record_that_was_changed_is_named() -> None:
    found = compared([*VALUES[:500], b"other", *VALUES[501:]])
    (difference,) = found.differences
    assert (difference.kind, difference.first, difference.records) == (ALTERED, 500, 1)
    assert found.verified == COUNT - 1


def test_records_of_other_producers_are_counted() -> None:
    found = compared([b"first", *VALUES[:500], b"another's", *VALUES[500:]])
    assert (found.differences, found.verified, found.others) == ([], COUNT, 2)


def test_later_records_in_the_copy_are_no_difference() -> None:
    assert compared([*VALUES, b"later"]).differences == []


def test_records_missing_at_the_end_are_lost_only_if_the_copy_is_complete() -> None:
    (difference,) = compared(VALUES[:-10]).differences
    assert (difference.kind, difference.first, difference.records) == (MISSING, COUNT - 10, 10)
    found = compared(VALUES[:-10], is_whole=False)
    assert (found.differences, found.is_complete) == ([], False)


def test_a_compacted_copy_may_lack_records_but_not_change_them() -> None:
    (difference,) = compared([*VALUES[10:500], b"other", *VALUES[501:]], may_lack=True).differences
    assert (difference.kind, difference.first) == (ALTERED, 500)


def test_loss_among_equal_records_is_found_by_their_count() -> None:
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


def test_copy_check_compares_keys_and_headers() -> None:
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


def test_unrelated_copy_is_not_aligned() -> None:
    assert aligned(stream(VALUES), stream([b"other"] * 10)) is None
    assert aligned(stream(VALUES), stream([])) is None


MANY = [b"%07d" % number for number in range(2 * _WINDOW + 20_000)]
BORDERS = [_WINDOW - 1, _WINDOW, 2 * _WINDOW - 1, 2 * _WINDOW]


@pytest.mark.parametrize("at", BORDERS)
@pytest.mark.parametrize("count", [1, 3])
def test_loss_at_the_end_of_a_window_is_named(at: int, count: int) -> None:
    found = compared([*MANY[:at], *MANY[at + count :]], MANY)
    (difference,) = found.differences
    assert (difference.kind, difference.first, difference.records) == (MISSING, at, count)
    assert found.verified == len(MANY) - count


@pytest.mark.parametrize("at", BORDERS)
def test_duplicates_at_the_end_of_a_window_are_named(at: int) -> None:
    found = compared([*MANY[:at], *MANY[at - 2 : at], *MANY[at:]], MANY)
    (difference,) = found.differences
    assert (difference.kind, difference.first, difference.records) == (REPEATED, at, 2)
    assert found.verified == len(MANY)


@pytest.mark.parametrize("at", BORDERS)
@pytest.mark.parametrize("count", [1, 1_000])
def test_change_at_the_end_of_a_window_is_named(at: int, count: int) -> None:
    found = compared([*MANY[:at], *[b"other"] * count, *MANY[at + count :]], MANY)
    (difference,) = found.differences
    assert (difference.kind, difference.first, difference.records) == (ALTERED, at, count)
    assert found.verified == len(MANY) - count


def test_a_changed_stretch_that_is_longer_than_a_window_is_named() -> None:
    stretch = _WINDOW + 10_000
    found = compared([*MANY[:500], *(b"-" + each for each in MANY[:stretch]), *MANY[500 + stretch :]], MANY)
    (difference,) = found.differences
    assert (difference.kind, difference.first, difference.records) == (ALTERED, 500, stretch)
    assert found.verified == len(MANY) - stretch


def test_many_changed_records_are_each_named() -> None:
    changed = range(0, len(MANY), 25)
    found = compared([b"-" + each if at % 25 == 0 else each for at, each in enumerate(MANY)], MANY)
    assert [each.first for each in found.differences] == [*changed]
    assert {each.kind for each in found.differences} == {ALTERED}


def test_a_loss_within_a_changed_stretch_is_found() -> None:
    copy = [*VALUES[:500], *(b"-" + each for each in VALUES[500:520]), *VALUES[521:]]
    found = compared(copy)
    assert sum(each.records for each in found.differences if each.kind is not REPEATED) == 21
    assert found.verified == COUNT - 21


def test_a_loss_that_is_longer_than_a_window_is_named() -> None:
    lost = _WINDOW + 10_000
    (difference,) = compared([*MANY[:500], *MANY[500 + lost :]], MANY).differences
    assert (difference.kind, difference.first, difference.records) == (MISSING, 500, lost)


def test_change_or_loss_of_every_other_record_is_found() -> None:
    changed = compared([b"-" + each if at % 2 else each for at, each in enumerate(VALUES)])
    assert [each.first for each in changed.differences] == [*range(1, COUNT, 2)]
    lost = compared(VALUES[::2])
    assert sum(each.records for each in lost.differences) == COUNT // 2
    assert {each.kind for each in lost.differences} == {MISSING}
