"""Which offset syncs are written."""

from fencepost.builtin.mirror.formats import OffsetSync
from fencepost.builtin.mirror.source.position import DueSyncs, as_record
from fencepost.record import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def due(lag_max: int, *pairs: tuple[int, int], place: TopicPartition = A) -> list[tuple[int, int]]:
    """Return which of (upstream, downstream) are written where they come one after the other."""
    syncs = DueSyncs(lag_max)
    written = [syncs.among([OffsetSync(place, *pair)]) for pair in pairs]
    return [(sync.upstream_offset, sync.downstream_offset) for found in written for sync in found]


def test_sync_is_written_first_and_then_after_the_allowed_lag() -> None:
    assert due(10, (0, 0), (5, 5), (10, 10), (11, 11), (20, 20), (22, 22)) == [(0, 0), (11, 11), (22, 22)]


def test_every_sync_is_written_with_an_allowed_lag_of_0() -> None:
    assert due(0, (0, 0), (1, 1), (2, 2)) == [(0, 0), (1, 1), (2, 2)]


def test_sync_is_written_at_an_offset_gap_or_a_restarted_target() -> None:
    assert due(100, (0, 0), (1, 1), (9, 2), (10, 3)) == [(0, 0), (9, 2)]
    assert due(100, (0, 50), (1, 3)) == [(0, 50), (1, 3)]


def test_syncs_of_the_first_and_last_record_of_a_new_partition_are_written() -> None:
    syncs = DueSyncs(100)
    first, last, later = OffsetSync(A, 40, 0), OffsetSync(A, 49, 9), OffsetSync(A, 50, 10)
    assert syncs.among([first, last]) == [first, last]
    assert syncs.among([later]) == []


def test_syncs_are_due_separately_for_each_partition() -> None:
    syncs = DueSyncs(10)
    assert len(syncs.among([OffsetSync(A, 0, 0), OffsetSync(B, 0, 0)])) == 2
    assert syncs.among([OffsetSync(A, 3, 3), OffsetSync(B, 40, 40)]) == [OffsetSync(B, 40, 40)]


def test_sync_is_a_record_in_partition_0_of_its_topic() -> None:
    sync = OffsetSync(A, 7, 9)
    record = as_record(sync, "mm2-offset-syncs.b.internal")
    assert OffsetSync.decode(record.key, record.value) == sync
    assert (record.topic, record.kafka_partition) == ("mm2-offset-syncs.b.internal", 0)
