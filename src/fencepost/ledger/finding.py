"""What an audit finds."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fencepost.ledger.entry import LedgerEntry
from fencepost.record import TopicPartition


class DifferenceKind(Enum):
    """In which way the log differs from the ledger."""

    MISSING = "missing"  # records that the ledger has, and the log has not
    REPEATED = "repeated"  # records that the log has twice
    ALTERED = "altered"  # other values or keys
    FIELDS = "fields"  # other headers, or the same bytes in other fields: known for a whole run only
    WITHOUT_ENTRY = "without entry"  # a committed transaction that the ledger does not have
    ENTRY_LOST = "entry lost"  # an entry of the ledger's topic


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference at `place`: in the records `first` to `last`, or, if `last` < `first`, between these two offsets.

    Attributes:
        records: how many records are missing, repeated or may be altered.
        entry: the ledger's entry that the log differs from.
        detail: what else is known.
    """

    kind: DifferenceKind
    place: TopicPartition
    first: int
    last: int
    records: int
    entry: LedgerEntry | None = None
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        writer = None if self.entry is None else self.entry.writer
        return {
            "kind": self.kind.value,
            "topic": self.place.topic,
            "partition": self.place.partition,
            "first_offset": self.first,
            "last_offset": self.last,
            "records": self.records,
            "task": None if writer is None else writer.task,
            "producer": None if writer is None else writer.transactional_id,
            "incarnation": None if writer is None else writer.incarnation,
            "entry": None if self.entry is None else self.entry.number,
            "detail": self.detail,
        }

    def __str__(self) -> str:
        topic, partition = self.place
        if self.last > self.first:
            where = f"offsets {self.first} to {self.last}"
        elif self.last == self.first:
            where = f"offset {self.first}"
        else:
            where = f"between offsets {self.last} and {self.first}"
        counted = f"{self.records} record{'' if self.records == 1 else 's'}"
        text = f"{topic}-{partition}  {where}: {self.kind.value}, {counted}"
        if self.entry is not None:
            text += (
                f" (task {self.entry.writer.task}, entry {self.entry.number} of {self.entry.writer.transactional_id})"
            )
        return f"{text}; {self.detail}" if self.detail else text


@dataclass(slots=True)
class PartitionFindings:
    """What was found in one partition.

    Attributes:
        verified: records that are as the ledger says.
        others: records that the ledger says nothing about: of other producers, or of a time without a ledger.
        notes: what could not be compared, and why.
        is_complete: whether everything that is in the log, and that the ledger says something about, was compared.
    """

    place: TopicPartition
    start: int
    end: int
    verified: int = 0
    others: int = 0
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_complete: bool = True


@dataclass
class Findings:
    """What an audit has found, whatever it compares."""

    connector: str
    partitions: list[PartitionFindings] = field(default_factory=list, kw_only=True)
    notes: list[str] = field(default_factory=list, kw_only=True)

    @property
    def differences(self) -> list[Difference]:
        """Return all differences, in order within each partition."""
        return [each for found in self.partitions for each in found.differences]

    @property
    def has_compared(self) -> bool:
        """Return whether there was anything to compare."""
        return bool(self.partitions)

    @property
    def is_complete(self) -> bool:
        """Return whether everything was compared that can be compared at all."""
        return self.has_compared and not self.notes and all(found.is_complete for found in self.partitions)
