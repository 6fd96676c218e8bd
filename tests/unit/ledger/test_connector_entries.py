"""Which entries of a ledger are missing."""

from fencepost.ledger.entries import ConnectorEntries, PlacedEntry
from fencepost.ledger.entry import LedgerEntry, Writer
from fencepost.record import TopicPartition


def placed(partition: int, offset: int, number: int) -> PlacedEntry:
    entry = LedgerEntry(Writer("c", 0, "i", "id"), number, ())
    return PlacedEntry(TopicPartition("ledger", partition), offset, entry, "offsets")


def test_entries_that_continue_in_another_partition_are_not_lost() -> None:
    """A topic that gets more partitions moves a connector's key, while its producer goes on counting."""
    found = [placed(0, 0, 2), placed(0, 2, 3), placed(1, 0, 0), placed(1, 2, 1)]
    assert ConnectorEntries("ledger", "c", found).lost() == []


def test_an_entry_that_is_missing_between_two_partitions_is_lost() -> None:
    found = [placed(0, 0, 3), placed(1, 0, 0), placed(1, 2, 1)]
    (lost,) = ConnectorEntries("ledger", "c", found).lost()
    assert (lost.records, lost.place.partition, lost.first) == (1, 0, 0)
