"""Translation: nothing is skipped, a boundary is exact, and memory is bounded."""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.builtin.mirror.checkpoint.checkpoints import Translation
from fencepost.builtin.mirror.formats import OffsetSync
from fencepost.record import TopicPartition

PLACE = TopicPartition("t", 0)


@dataclass
class Mirrored:
    """A partition of a source and what became of it: where each record went, and the boundaries of transactions."""

    went: dict[int, int] = field(default_factory=dict)  # upstream offset -> downstream offset
    boundaries: list[tuple[int, int]] = field(default_factory=list)  # the last records of transactions
    first_after: list[int] = field(default_factory=list)  # where the source goes on behind each boundary
    source_end: int = 0
    target_end: int = 0


@st.composite
def mirrored(draw: st.DrawFn) -> Mirrored:
    """Transactions of records with gaps between them, at the source and at the target."""
    made = Mirrored()
    made.source_end = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 12))):
        for _ in range(draw(st.integers(1, 6))):
            made.source_end += draw(st.sampled_from([0, 0, 0, 1, 4]))  # compacted or aborted
            made.went[made.source_end] = made.target_end
            made.source_end += 1
            made.target_end += 1 + draw(st.sampled_from([0, 0, 0, 2]))  # records of the same transaction's retries
        last = max(made.went)
        made.boundaries.append((last, made.went[last]))
        made.source_end += draw(st.integers(0, 3))  # markers
        made.first_after.append(made.source_end)
        made.target_end += draw(st.integers(0, 2))  # markers
    return made


def translation(syncs: list[tuple[int, int]], most: int = 1_000) -> Translation:
    made = Translation(most)
    for upstream, downstream in syncs:
        made.add(OffsetSync(PLACE, upstream, downstream))
    return made


def skipped(world: Mirrored, position: int, at: int) -> list[int]:
    """Return records that are still to be read, and that somebody who begins `at` does not see."""
    return [up for up, down in world.went.items() if up >= position and down < at]


def read_twice(world: Mirrored, position: int, at: int) -> list[int]:
    return [up for up, down in world.went.items() if up < position and down >= at]


def positions(world: Mirrored) -> range:
    return range(world.source_end + 3)


@given(mirrored(), st.data())
def test_translation_skips_no_record_for_any_set_of_syncs(world: Mirrored, data: st.DataObject) -> None:
    some = data.draw(st.lists(st.sampled_from(sorted(world.went)), unique=True))
    found = translation([(up, world.went[up]) for up in sorted(some)])
    for position in positions(world):
        at = found.downstream(PLACE, position)
        if at is None:
            assert not [up for up in some if up <= position]
        else:
            assert skipped(world, position, at) == []
            assert at <= world.target_end


@given(mirrored())
def test_translation_is_exact_at_a_boundary_and_in_the_gap_after_it(world: Mirrored) -> None:
    found = translation(world.boundaries)
    for (last, went), first_after in zip(world.boundaries, world.first_after, strict=True):
        for position in range(last + 1, first_after + 1):
            at = found.downstream(PLACE, position)
            assert at is not None
            assert at > went
            assert read_twice(world, position, at) == []
            assert skipped(world, position, at) == []


@given(mirrored())
def test_translation_repeats_at_most_one_transaction_between_boundaries(world: Mirrored) -> None:
    found = translation(world.boundaries)
    for position in positions(world):
        at = found.downstream(PLACE, position)
        again = read_twice(world, position, at if at is not None else 0)
        ends = [last for last, _ in world.boundaries if last < position]
        assert [up for up in again if ends and up <= max(ends)] == []


@given(mirrored(), st.integers(1, 40))
def test_a_later_position_is_never_translated_to_an_earlier_one(world: Mirrored, most: int) -> None:
    found = translation(sorted(world.went.items()), most)
    places = [at for position in positions(world) if (at := found.downstream(PLACE, position)) is not None]
    assert places == sorted(places)


@given(mirrored(), st.integers(1, 40))
def test_translation_skips_no_record_after_dropping_old_syncs(world: Mirrored, most: int) -> None:
    found = translation(sorted(world.went.items()), most)
    for position in positions(world):
        at = found.downstream(PLACE, position)
        assert at is None or skipped(world, position, at) == []


def test_number_of_syncs_is_bounded_and_the_newest_stay_exact() -> None:
    partitions = [TopicPartition("t", n) for n in range(10)]
    seed = 7
    draw, found, ends = Random(seed), Translation(4_000), dict.fromkeys(partitions, 0)
    for _ in range(100_000):
        place = partitions[min(draw.randrange(40), 9)]  # most go to the last one
        ends[place] += 10
        found.add(OffsetSync(place, ends[place], 2 * ends[place]))
    assert len(found) <= 4_000, f"seed {seed}"
    for place, end in ends.items():
        newest = range(end, max(0, end - 10 * 100), -10)
        assert [found.downstream(place, up) for up in newest] == [2 * up for up in newest]
        assert found.downstream(place, 10) == 20, "the oldest is kept: what lies behind it can be translated"
        assert found.downstream(place, 9) is None


def test_some_syncs_are_kept_for_each_of_many_partitions_for_any_limit() -> None:
    found = Translation(1)
    for partition in range(100):
        for number in range(8):
            found.add(OffsetSync(TopicPartition("t", partition), number, number))
    assert [found.downstream(TopicPartition("t", n), 5) for n in range(100)] == [5] * 100


@pytest.mark.parametrize(
    ("syncs", "expected"),
    [
        ([], {0: None, 9: None}),
        ([(5, 50)], {4: None, 5: 50, 6: 51, 99: 51}),
        ([(5, 50), (8, 60)], {5: 50, 7: 51, 8: 60, 9: 61}),
        ([(5, 50), (8, 60), (6, 70)], {5: None, 6: 70, 8: 71}),  # the mirror was sent back, or the source is another
        ([(5, 50), (8, 60), (9, 0)], {5: None, 8: None, 9: 0}),  # the target is another
        ([(5, 50), (8, 60), (9, 60)], {8: None, 9: 60}),
        ([(5, 50), (8, 60), (8, 64)], {5: 50, 7: 51, 8: 64, 9: 65}),  # sent once more
        ([(5, 50), (8, 60), (8, 60)], {5: 50, 8: 60}),
    ],
)
def test_positions_around_syncs_are_translated(syncs: list[tuple[int, int]], expected: dict[int, int | None]) -> None:
    found = translation(syncs)
    assert {position: found.downstream(PLACE, position) for position in expected} == expected


def test_syncs_of_one_partition_do_not_translate_another() -> None:
    found = translation([(5, 50)])
    assert found.downstream(TopicPartition("t", 1), 5) is None
