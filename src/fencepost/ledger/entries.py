"""Reads the entries of a connector from a ledger's topic."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.kafka.codec.run_digest import WrittenRun
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.ledger.carried import carried_bounds
from fencepost.ledger.entry import LedgerEntry, LedgerFormatError, LedgerRecord
from fencepost.ledger.finding import Difference, DifferenceKind
from fencepost.record import TopicPartition


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """An entry, with its place in the ledger's topic, or in the offsets topic that carries it.

    `offsets` is the offsets topic that its record names.
    """

    place: TopicPartition
    offset: int
    entry: LedgerEntry
    offsets: str


@dataclass
class ConnectorEntries:
    """The entries of one connector, as far as they were read.

    `is_whole` says that the ledger's topic still has every record that was ever written to it.
    """

    topic: str
    connector: str
    written: list[PlacedEntry] = field(default_factory=list)
    is_whole: bool = True
    unreadable: list[str] = field(default_factory=list)
    """Where there are records that cannot be read, and why: others may have written them, or a newer Fencepost.

    One in an offsets topic is listed even if another has replaced it: it may have had what no other one has.
    """
    _carried: dict[tuple[TopicPartition, bytes], Sequence[PlacedEntry]] = field(default_factory=dict)
    _ends: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def offsets_topics(self) -> list[str]:
        """Return the topics that may carry entries, as the entries of the ledger say."""
        return [*dict.fromkeys(each.offsets for each in self.written)]

    @property
    def found(self) -> list[PlacedEntry]:
        """Return each entry once: those in the ledger's topic, and then those that are carried.

        What a task carries is newer than what it has written to the ledger; `runs` looks whether it is.
        """
        carried = sorted(self._carried.values(), key=len)  # of one task, the longest has the newest
        every = [*self.written, *(each for found in carried for each in found)]
        first: dict[tuple[str, int], PlacedEntry] = {}
        for each in every:
            first.setdefault(each.entry.id, each)
        return [*first.values()]

    def read_on(self, conf: Mapping[str, Any]) -> None:
        """Read what was committed to the ledger's topic since the last call. Raises what TopicBrowser raises."""
        browser = TopicBrowser(conf, self.topic)
        self.is_whole = not any(start for start, _ in browser.ranges.values())
        key = self.connector.encode()
        for record in browser.read(self._unread(browser)):
            if record.key == key:
                found = self._parsed(self.topic, record)
                self.written += [] if found is None else _placed(self.topic, record, found)

    def read_carried(self, conf: Mapping[str, Any], topic: str) -> None:
        """Read what an offsets topic carries. Read the ledger's topic afterwards: entries move there.

        Raises what `read_on` raises.
        """
        browser = TopicBrowser(conf, topic)
        for record in browser.read(self._unread(browser), carried_bounds(self.connector, self.topic)):
            found = self._parsed(topic, record)
            if found is not None or record.value is None:
                place = TopicPartition(topic, record.partition)
                self._carried[place, record.key or b""] = () if found is None else _placed(topic, record, found)

    def _parsed(self, topic: str, record: TopicRecord) -> LedgerRecord | None:
        """Return what a record has; None if it is a tombstone, or unreadable, which is noted."""
        try:
            return None if record.value is None else LedgerRecord.of(record.value)
        except LedgerFormatError as error:
            self.unreadable.append(f"{topic}-{record.partition}@{record.offset}: {error}")
            return None

    def _unread(self, browser: TopicBrowser) -> dict[int, tuple[int, int]]:
        """Return the ranges of a topic that were not read yet, and count them as read."""
        found = {}
        for partition, (start, end) in browser.ranges.items():
            place = TopicPartition(browser.topic, partition)
            found[partition] = self._ends.get(place, start), end
            self._ends[place] = end
        return found

    def runs(self, *, are_all_there: bool = True) -> "LedgerRuns":
        found = self.found
        is_ordered = len({each.place for each in self.written}) <= 1 and self._is_ordered(found)
        entries = (each.entry for each in found)
        return LedgerRuns(entries, are_whole=self.is_whole, are_ordered=is_ordered, are_all_there=are_all_there)

    def _is_ordered(self, found: Iterable[PlacedEntry]) -> bool:
        """Return whether the entries of each task are found in their order.

        They are not if a start did not know what its predecessor carried: its offsets topic is another one, or its
        Fencepost is older. Nobody writes those entries to the ledger then, or a later start does, after newer ones.
        """
        newest = {each.entry.writer.task: each.offsets for each in self.written}
        last: dict[tuple[int, str], LedgerEntry] = {}
        incarnations: set[str] = set()
        for each in found:
            writer, topic = each.entry.writer, each.place.topic
            if topic != self.topic and topic != newest.get(writer.task, topic):
                return False
            before = last.get((writer.task, writer.transactional_id))
            if before is not None and not _may_follow(before, each.entry, incarnations):
                return False
            last[writer.task, writer.transactional_id] = each.entry
            incarnations.add(writer.incarnation)
        return True

    def lost(self) -> list[Difference]:
        """Return where entries of a producer's incarnation are missing, by their numbers."""
        lost: list[Difference] = []
        of_incarnation: dict[str, list[PlacedEntry]] = defaultdict(list)
        for each in self.found:
            of_incarnation[each.entry.writer.incarnation].append(each)
        for found in of_incarnation.values():
            found.sort(key=lambda each: each.entry.number)  # not by offset: a topic with more partitions moves keys
            before = -1 if self.is_whole else found[0].entry.number - 1
            last: PlacedEntry | None = None
            for each in found:
                if each.entry.number != before + 1:
                    count = each.entry.number - before - 1
                    text = f"the entry before it has number {before}" if before >= 0 else "it is the first one there"
                    kind = DifferenceKind.ENTRY_LOST
                    after = last.offset if last is not None and last.place == each.place else -1
                    lost.append(Difference(kind, each.place, each.offset, after, count, each.entry, text))
                before, last = each.entry.number, each
        return lost


def _placed(topic: str, record: TopicRecord, found: LedgerRecord) -> list[PlacedEntry]:
    place = TopicPartition(topic, record.partition)
    return [PlacedEntry(place, record.offset, entry, found.offsets) for entry in found.entries]


def _may_follow(before: LedgerEntry, entry: LedgerEntry, incarnations: Collection[str]) -> bool:
    """Return whether an entry may come next after one of the same transactional id. `incarnations`: those so far."""
    incarnation = entry.writer.incarnation
    if before.writer.incarnation == incarnation:
        return before.number < entry.number
    earlier, later = before.runs[-1], entry.runs[0]
    is_older = earlier.producer_id == later.producer_id and earlier.producer_epoch > later.producer_epoch
    return not is_older and incarnation not in incarnations


class LedgerRuns:
    """The runs of entries by partition, and which incarnation wrote with which producer."""

    def __init__(
        self,
        entries: Iterable[LedgerEntry],
        *,
        are_whole: bool,
        are_ordered: bool = True,
        are_all_there: bool = True,
    ) -> None:
        """`are_whole`: no entry of the ledger was deleted. `are_ordered`: those of a task are in their order.
        `are_all_there`: no topic that may have carried some has been deleted."""
        self.are_whole = are_whole
        self.are_ordered = are_ordered
        self.are_all_there = are_all_there
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
