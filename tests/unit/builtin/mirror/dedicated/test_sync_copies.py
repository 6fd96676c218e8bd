"""Which offset syncs are copied when a flow changes its type."""

from collections.abc import Iterable

from fencepost.builtin.mirror.formats import OffsetSync
from fencepost.cli.cluster.migration import Extent, SyncsWithin
from fencepost.record import TopicPartition

PLACE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
EXTENTS = {PLACE: Extent(100, 120)}


def within(*pairs: tuple[int, int], most: int = 1_000) -> SyncsWithin:
    made = SyncsWithin(EXTENTS, most)
    for upstream, downstream in pairs:
        made.add(OffsetSync(PLACE, upstream, downstream))
    return made


def pairs(syncs: Iterable[OffsetSync]) -> list[tuple[int, int]]:
    return [(sync.upstream_offset, sync.downstream_offset) for sync in syncs]


def test_syncs_are_copied_only_to_a_topic_without_them() -> None:
    old = within((9, 10), (99, 119))
    assert pairs(old.missing_in(within())) == [(9, 10), (99, 119)]
    assert old.missing_in(old) == []


def test_only_syncs_after_the_existing_ones_are_copied() -> None:
    old = within((9, 10), (49, 60), (99, 119))
    assert pairs(old.missing_in(within((9, 10), (50, 61)))) == [(99, 119)]


def test_syncs_of_records_that_are_mirrored_again_are_not_copied() -> None:
    """MirrorMaker was killed: its syncs are further than its position, and the first new one would go back."""
    assert pairs(within((9, 10), (99, 110), (100, 111), (105, 116)).missing_in(within())) == [(9, 10), (99, 110)]


def test_syncs_of_an_earlier_topic_are_ignored() -> None:
    old = within((50, 7_000), (500, 60), (10, 11), (20, 21))
    assert pairs(old.missing_in(within((500, 510)))) == [(10, 11), (20, 21)]
    assert pairs(within((80, 90), (10, 11)).missing_in(within())) == [(10, 11)]


def test_syncs_of_other_partitions_are_not_copied() -> None:
    old = SyncsWithin(EXTENTS)
    old.add(OffsetSync(OTHER, 1, 1))
    assert old.missing_in(within()) == []


def test_last_copied_sync_keeps_its_topic_id_and_epoch() -> None:
    old = SyncsWithin(EXTENTS)
    old.add(OffsetSync(PLACE, 9, 10, "id", 3))
    [sync] = old.missing_in(within())
    assert (sync.topic_id, sync.epoch) == ("id", 3)


def test_older_of_many_copied_syncs_are_thinned_out_and_the_last_stays() -> None:
    old = within(*((number, number) for number in range(100)), most=40)
    kept = pairs(old.missing_in(within()))
    assert len(kept) <= 40
    assert kept[-1] == (99, 99)
    assert kept == sorted(kept)
