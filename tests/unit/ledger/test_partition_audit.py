"""What the audit of one partition says about records that are missing: lost, deleted, replaced, or of another topic."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from fencepost.kafka.codec.encode_header import SEQUENCES
from fencepost.kafka.codec.run_digest import BLOCK, RunDigest, WrittenRun
from fencepost.kafka.read.produced import Produced
from fencepost.ledger.entries import ConnectorEntries, LedgerRuns, PlacedEntry
from fencepost.ledger.entry import LedgerEntry, Writer
from fencepost.ledger.finding import DifferenceKind, PartitionFindings
from fencepost.ledger.partition_audit import LogExtent, PartitionAudit
from fencepost.record import TopicPartition

PLACE = TopicPartition("t", 0)
PRODUCER = 7, 0
PRESENT = "present"
COUNT = 100


def values(count: int, start: int = 0) -> list[bytes]:
    return [b"line %07d" % number for number in range(start, start + count)]


def column(found: Sequence[bytes]) -> pa.Array:
    return pa.array(found, pa.binary())


def entry(
    number: int,
    found: Sequence[bytes],
    sequence: int,
    *,
    after: int = -1,
    topic_id: str = PRESENT,
    producer: tuple[int, int] = PRODUCER,
    incarnation: str = "",
) -> LedgerEntry:
    digest = RunDigest()
    digest.add_fields(column(found), None, None)
    run = WrittenRun(PLACE, *producer, sequence, digest.digest(), topic_id, after)
    return LedgerEntry(Writer("c", 0, incarnation or f"incarnation {producer}", "id"), number, (run,))


def records(found: Sequence[bytes], sequence: int, offset: int, producer: tuple[int, int] = PRODUCER) -> Produced:
    return Produced(producer, sequence, offset, column(found), pa.nulls(len(found), pa.binary()), None)


def audited(
    entries: Sequence[LedgerEntry],
    log: Sequence[Produced],
    start: int = 0,
    *,
    are_all_there: bool = True,
    **how: bool,
) -> PartitionFindings:
    extent = LogExtent(start, 1 << 40, 1 << 40, topic_id=PRESENT, **how)
    audit = PartitionAudit(PLACE, LedgerRuns(entries, are_whole=True, are_all_there=are_all_there), extent)
    for each in log:
        audit.add(each)
    return audit.findings()


def test_a_loss_in_the_first_run_of_a_log_that_no_longer_begins_at_0_is_found() -> None:
    """The run before ended at offset 199, so none of these was deleted."""
    run = values(COUNT)
    found = audited([entry(1, run, 100, after=200)], [records(run[10:], 110, 201)], start=201)
    (difference,) = found.differences
    assert (difference.kind, difference.records, found.notes) == (DifferenceKind.MISSING, 10, [])


def test_loss_of_a_whole_first_run_is_found_by_the_preceding_entry() -> None:
    first, second, third = values(COUNT), values(COUNT, COUNT), values(COUNT, 2 * COUNT)
    entries = [entry(0, first, 0), entry(1, second, 100, after=100), entry(2, third, 200, after=100)]
    (difference,) = audited(entries, [records(third, 200, 101)], start=101).differences
    assert (difference.kind, difference.records) == (DifferenceKind.MISSING, COUNT)


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("is_in_ledger", [True, False])
def test_older_entries_found_after_newer_ones_are_no_difference(is_whole: bool, is_in_ledger: bool) -> None:
    """The second start did not know what the first one carried. A third one may have written it to the ledger."""
    first, second, third = values(COUNT), values(COUNT, COUNT), values(COUNT, 2 * COUNT)
    newer = 7, 1
    begun, carried, later = entry(0, first, 0), entry(1, second, 100), entry(0, third, 0, producer=newer)
    ledger, offsets = TopicPartition("ledger", 0), TopicPartition("offsets", 0)
    written = [PlacedEntry(ledger, 0, begun, offsets.topic)] * is_whole + [PlacedEntry(ledger, 1, later, offsets.topic)]
    late = PlacedEntry(ledger if is_in_ledger else offsets, 2, carried, offsets.topic)
    found = ConnectorEntries("ledger", "c", written + [late] * is_in_ledger)
    found._carried = {} if is_in_ledger else {(offsets, b"key"): [late]}
    log = [records(third, 0, 202, newer)]  # retention has deleted what was before
    extent = LogExtent(202, 1 << 40, 1 << 40, topic_id=PRESENT)
    audit = PartitionAudit(PLACE, found.runs(), extent)
    for each in log:
        audit.add(each)
    assert audit.findings().differences == []


def test_entries_in_a_former_offsets_topic_have_no_known_order() -> None:
    """They may be of another producer id, which says nothing of their order."""
    ledger, left = TopicPartition("ledger", 0), TopicPartition("left", 0)
    carried, later = entry(1, values(COUNT), 100), entry(0, values(COUNT), 0, producer=(8, 0))
    for named in ("left", "offsets"):
        found = ConnectorEntries("ledger", "c", [PlacedEntry(ledger, 1, later, named)])
        found._carried = {(left, b"key"): [PlacedEntry(left, 2, carried, "left")]}
        assert found.runs().are_ordered == (named == "left")


def test_loss_in_a_producers_first_run_is_found_by_the_previous_producer() -> None:
    first, second, third = values(COUNT), values(COUNT, COUNT), values(COUNT, 2 * COUNT)
    newer = 8, 0
    entries = [entry(0, first, 0), entry(0, second, 0, producer=newer), entry(1, third, 100, producer=newer)]
    log = [records(first[50:], 50, 50), records(third, 100, 101, newer)]
    found = audited(entries, log, start=50)
    (difference,) = found.differences
    assert (difference.kind, difference.records) == (DifferenceKind.MISSING, COUNT)
    assert found.notes == ["50 records of 1 entry are deleted"]


def test_deleted_records_are_no_difference_and_are_noted_in_one_line() -> None:
    runs = [values(COUNT, start) for start in range(0, 5 * COUNT, COUNT)]
    entries = [entry(n, run, n * COUNT, after=n * (COUNT + 1) - 1) for n, run in enumerate(runs)]
    start = 3 * (COUNT + 1) + 20
    found = audited(entries, [records(runs[3][20:], 320, start), records(runs[4], 400, 404)], start=start)
    assert found.differences == []
    assert found.notes == [f"{3 * COUNT + 20} records of 4 entries are deleted"]
    assert found.verified == COUNT + COUNT - BLOCK  # a block whose beginning is deleted cannot be compared


def test_runs_of_a_deleted_topic_are_no_difference_in_its_successor() -> None:
    old, new = values(COUNT), values(COUNT, COUNT)
    entries = [entry(0, old, 0, topic_id="deleted"), entry(1, new, 100, after=-1)]
    found = audited(entries, [records(new, 100, 0)])
    assert (found.differences, found.verified) == ([], COUNT)
    assert found.notes == [f"{COUNT} records of 1 entry were written to a topic of this name that was deleted"]


def test_a_loss_in_a_topic_that_was_created_again_is_found() -> None:
    old, new, newer = values(COUNT), values(COUNT, COUNT), values(COUNT, 2 * COUNT)
    entries = [entry(0, old, 0, topic_id="deleted"), entry(1, new, 100), entry(2, newer, 200, after=COUNT)]
    (difference,) = audited(entries, [records(newer, 200, 0)]).differences
    assert (difference.records, difference.entry) == (COUNT, entries[1])


def test_records_written_before_a_producer_knew_of_a_new_topic_are_verified() -> None:
    run = values(COUNT)
    found = audited([entry(0, run, 0, topic_id="deleted", after=5_000)], [records(run, 0, 0)])
    assert (found.differences, found.verified, found.notes) == ([], COUNT, [])


LAST = SEQUENCES - 50


def laps() -> tuple[list[LedgerEntry], list[Produced]]:
    """Return entries and the log of a producer that begins with sequence 0 again; offset 1,000 is a lap later."""
    runs = [values(COUNT, start) for start in range(0, 4 * COUNT, COUNT)]
    sequences, offsets = [LAST - COUNT, LAST, 50, LAST - COUNT], [0, 100, 200, 1_000]
    placed = [*zip(runs, sequences, offsets, strict=True)]
    entries = [entry(n, run, sequence, after=offset - 1) for n, (run, sequence, offset) in enumerate(placed)]
    return entries, [records(*each) for each in placed]


def test_runs_are_verified_across_a_sequence_wrap() -> None:
    entries, log = laps()
    found = audited(entries, log)
    assert (found.differences, found.verified, found.notes) == ([], 4 * COUNT, [])


def test_log_that_begins_after_a_sequence_wrap_is_verified() -> None:
    entries, log = laps()
    found = audited(entries, log[3:], start=1_000)
    assert (found.differences, found.verified) == ([], COUNT)


@pytest.mark.parametrize("lost", range(4))
def test_lost_run_is_found_at_a_sequence_wrap(lost: int) -> None:
    entries, log = laps()
    (difference,) = audited(entries, [*log[:lost], *log[lost + 1 :]]).differences
    assert (difference.kind, difference.records, difference.entry) == (DifferenceKind.MISSING, COUNT, entries[lost])


def test_compacted_run_counts_only_compared_records_as_verified() -> None:
    run = values(3 * BLOCK)
    log = [records(run[:5], 0, 0), records(run[6:], 6, 6)]
    found = audited([entry(0, run, 0)], log, is_compacted=True)
    assert (found.differences, found.verified) == ([], 2 * BLOCK)
    (note,) = found.notes
    assert note.startswith("1 record of 1 entry are missing")
    assert f"{BLOCK - 1} others could not be compared" in note


def test_a_changed_value_in_a_compacted_run_is_found() -> None:
    run = values(3 * BLOCK)
    log = [records([b"other", *run[1 : BLOCK + 5]], 0, 0), records(run[BLOCK + 6 :], BLOCK + 6, BLOCK + 6)]
    found = audited([entry(0, run, 0)], log, is_compacted=True)
    assert [(each.kind, each.first) for each in found.differences] == [(DifferenceKind.ALTERED, 0)]


def begun(*epochs: int, incarnation: str = "one") -> tuple[list[LedgerEntry], list[Produced]]:
    """Return the entries of an incarnation with a transaction in each of these epochs, and their records."""
    runs = [values(COUNT, COUNT * epoch) for epoch in epochs]
    entries = [
        entry(number, run, 0, producer=(7, epoch), incarnation=incarnation)
        for number, (epoch, run) in enumerate(zip(epochs, runs, strict=True))
    ]
    log = [records(run, 0, (COUNT + 1) * epoch, (7, epoch)) for epoch, run in zip(epochs, runs, strict=True)]
    return entries, log


def others(*epochs: int) -> list[Produced]:
    return [records(values(COUNT, COUNT * epoch), 0, (COUNT + 1) * epoch, (7, epoch)) for epoch in epochs]


@pytest.mark.parametrize("is_followed", [True, False])
def test_transactions_after_lost_ledger_entries_are_reported_without_entry(is_followed: bool) -> None:
    """Each end has given it the next epoch. Whether a start with a ledger came later changes nothing."""
    entries, log = begun(0, 1)
    later, its_log = begun(5, 6, incarnation="two") if is_followed else ([], [])
    found = audited([*entries, *later], [*log, *others(2, 3), *its_log])
    assert [(each.kind, each.records) for each in found.differences] == [(DifferenceKind.WITHOUT_ENTRY, COUNT)] * 2
    assert (found.others, found.notes) == (0, [])


def test_start_without_a_ledger_is_noted_by_its_own_producer_epoch() -> None:
    entries, log = begun(0, 1)
    found = audited(entries, [*log, *others(3, 4)])
    assert (found.differences, found.others) == ([], 2 * COUNT)
    assert "without a ledger" in found.notes[0]


def test_epoch_after_a_kept_epoch_may_belong_to_another_start() -> None:
    """As with version 1 of the transaction protocol."""
    entries, log = begun(0)
    found = audited(entries, [*log, *others(1)])
    assert (found.differences, found.others) == ([], COUNT)


def test_entries_a_deleted_topic_may_have_carried_are_not_reported_lost() -> None:
    entries, log = begun(0, 1)
    found = audited(entries, [*log, *others(2)], are_all_there=False)
    assert (found.differences, found.others) == ([], COUNT)
