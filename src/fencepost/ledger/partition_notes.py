"""What could not be compared in one partition, each reason in one line."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Count:
    """How many records there are for one reason, and of how many runs or pieces."""

    records: int = 0
    runs: int = 0
    first: int = -1
    last: int = -1

    def add(self, records: int) -> None:
        self.records += records
        self.runs += 1


@dataclass(slots=True)
class PartitionNotes:
    """Counts reasons. `is_whole`: no entry of the ledger was deleted."""

    is_whole: bool
    is_open: bool = False
    """Whether a transaction is open."""
    _deleted: _Count = field(default_factory=_Count)
    _of_deleted_topic: _Count = field(default_factory=_Count)
    _replaced: _Count = field(default_factory=_Count)
    _left: int = 0
    _without_ledger: _Count = field(default_factory=_Count)

    def deleted(self, records: int) -> None:
        """Count records of a run that are no longer in the log, because its beginning was deleted."""
        self._deleted.add(records)

    def of_deleted_topic(self, records: int) -> None:
        """Count the records of a run that was written to a deleted topic."""
        self._of_deleted_topic.add(records)

    def replaced(self, records: int, *, left: int) -> None:
        """Count records of a run that compaction has removed; `left` others are in a block with one of them."""
        self._replaced.add(records)
        self._left += left

    def without_ledger(self, first: int, last: int) -> None:
        """Count the records of these offsets, which were written while there was no ledger."""
        found = self._without_ledger
        found.add(last - first + 1)
        found.first = first if found.first < 0 else min(first, found.first)
        found.last = max(last, found.last)

    def texts(self) -> list[str]:
        """Return a line for each reason there is."""
        return [*self._texts()]

    def _texts(self) -> Iterator[str]:
        if self._of_deleted_topic.runs:
            yield f"{_records(self._of_deleted_topic)} were written to a topic of this name that was deleted"
        if self._deleted.runs:
            yield f"{_records(self._deleted)} are deleted"
        if self._replaced.runs:
            yield (
                f"{_records(self._replaced)} are missing, which newer ones may have replaced: the topic is compacted; "
                f"{self._left} others could not be compared, because their checksums cover missing ones"
            )
        others = self._without_ledger
        if others.runs:
            when = "at a time without a ledger" if self.is_whole else "before the oldest entry, or without a ledger"
            yield f"{others.records} records at offsets {others.first} to {others.last} were written {when}"
        if self.is_open:
            yield "a transaction is open, so the newest records cannot be read yet: repeat the audit"


def _records(count: _Count) -> str:
    records = "record" if count.records == 1 else "records"
    return f"{count.records} {records} of {count.runs} entr{'y' if count.runs == 1 else 'ies'}"
