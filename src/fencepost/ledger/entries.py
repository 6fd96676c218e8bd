"""Reads the entries of a connector from a ledger's topic."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.kafka.codec.run_digest import WrittenRun
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.ledger.entry import LedgerEntry
from fencepost.ledger.finding import Difference, DifferenceKind
from fencepost.record import TopicPartition


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """An entry, with its place in the ledger's topic."""

    partition: int
    offset: int
    entry: LedgerEntry


@dataclass
class ConnectorEntries:
    """The entries of one connector, as far as they were read.

    `is_whole` says that the topic still has every record that was ever written to it.
    """

    topic: str
    connector: str
    found: list[PlacedEntry] = field(default_factory=list)
    is_whole: bool = True
    _ends: dict[int, int] = field(default_factory=dict)

    def read_on(self, conf: Mapping[str, Any]) -> None:
        """Read what was committed since the last call. Raises what TopicBrowser raises, and LedgerFormatError."""
        browser = TopicBrowser(conf, self.topic)
        ranges = {each: (self._ends.get(each, start), end) for each, (start, end) in browser.ranges.items()}
        self.is_whole = not any(start for start, _ in browser.ranges.values())
        key = self.connector.encode()
        for record in browser.read(ranges):
            if record.key == key and record.value is not None:
                self.found.append(PlacedEntry(record.partition, record.offset, LedgerEntry.of(record.value)))
        self._ends = {each: end for each, (_, end) in browser.ranges.items()}

    def runs(self) -> "LedgerRuns":
        is_ordered = len({each.partition for each in self.found}) <= 1
        return LedgerRuns((each.entry for each in self.found), are_whole=self.is_whole, are_ordered=is_ordered)

    def lost(self) -> list[Difference]:
        """Return where entries of a producer's incarnation are missing, by their numbers."""
        lost: list[Difference] = []
        of_incarnation: dict[str, list[PlacedEntry]] = defaultdict(list)
        for each in self.found:
            of_incarnation[each.entry.writer.incarnation].append(each)
        for found in of_incarnation.values():
            found.sort(key=lambda each: each.entry.number)  # not by offset: a topic with more partitions moves keys
            before = -1 if self.is_whole else found[0].entry.number - 1
            after_offset = -1
            for each in found:
                if each.entry.number != before + 1:
                    count = each.entry.number - before - 1
                    text = f"the entry before it has number {before}" if before >= 0 else "it is the first one there"
                    place = TopicPartition(self.topic, each.partition)
                    kind = DifferenceKind.ENTRY_LOST
                    lost.append(Difference(kind, place, each.offset, after_offset, count, each.entry, text))
                before, after_offset = each.entry.number, each.offset
        return lost


class LedgerRuns:
    """The runs of entries by partition, and which incarnation wrote with which producer."""

    def __init__(self, entries: Iterable[LedgerEntry], *, are_whole: bool, are_ordered: bool = True) -> None:
        """`are_whole`: no entry of the ledger was deleted. `are_ordered`: those of a task are in their order."""
        self.are_whole = are_whole
        self.are_ordered = are_ordered
        of_place: dict[TopicPartition, list[tuple[LedgerEntry, WrittenRun]]] = defaultdict(list)
        incarnations: dict[int, set[tuple[int, str]]] = defaultdict(set)
        for entry in entries:
            for run in entry.runs:
                of_place[run.place].append((entry, run))
                incarnations[run.producer_id].add((run.producer_epoch, entry.writer.incarnation))
        self.of_place: Mapping[TopicPartition, Sequence[tuple[LedgerEntry, WrittenRun]]]
        """In the order of the partitions, and of the entries."""
        self.of_place = dict(sorted(of_place.items()))
        self.incarnations: Mapping[int, Sequence[tuple[int, str]]]
        """Epochs and incarnations by the producer's id, in the order of the epochs."""
        self.incarnations = {producer_id: sorted(found) for producer_id, found in incarnations.items()}
