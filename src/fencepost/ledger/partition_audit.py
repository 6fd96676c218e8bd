"""Compares the log of one partition with what a ledger says about it, run by run."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from operator import attrgetter

from fencepost.kafka.codec.encode_header import SEQUENCES
from fencepost.kafka.codec.run_digest import BLOCK, RunDigest, WrittenRun
from fencepost.kafka.read.produced import Produced
from fencepost.ledger.entries import LedgerRuns
from fencepost.ledger.entry import LedgerEntry
from fencepost.ledger.finding import Difference, DifferenceKind, PartitionFindings
from fencepost.record import TopicPartition


@dataclass(frozen=True, slots=True)
class _Piece:
    """Records of the run from `index` on, which are in the log from `offset` on."""

    index: int
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class _Hole:
    """Records of the run from `index` on that the log does not have, or, with a negative count, has once more.

    `after` and `before` are the offsets of the records around it, -1 if there is none.
    """

    index: int
    count: int
    after: int
    before: int


@dataclass(slots=True)
class RunCheck:
    """What a log has of one run. `add` takes its records in the order of their offsets."""

    entry: LedgerEntry
    run: WrittenRun
    next: int = 0
    _seen: RunDigest = field(default_factory=RunDigest)
    _pieces: list[_Piece] = field(default_factory=list)
    _holes: list[_Hole] = field(default_factory=list)

    @property
    def is_seen(self) -> bool:
        return bool(self._pieces)

    @property
    def lacks_end(self) -> bool:
        """Return whether the log has no more records of the run, although there should be some."""
        return self.next < self.run.digest.records

    @property
    def begins_at(self) -> int:
        """Return how many of the first records the log does not have."""
        return self._pieces[0].index if self._pieces else self.run.digest.records

    @property
    def seen(self) -> int:
        """Return how many of the records the log has."""
        return sum(piece.count for piece in self._pieces)

    @property
    def compared(self) -> int:
        """Return how many of the records are in blocks that the log has completely."""
        records = self.run.digest.records
        known = enumerate(self._seen.digest().values)
        return sum(min(BLOCK, records - block * BLOCK) for block, crc in known if crc is not None)

    @property
    def last_offset(self) -> int:
        """Return the offset of the last record that was seen, -1 if none was."""
        return self._pieces[-1].offset + self._pieces[-1].count - 1 if self._pieces else -1

    def add(self, index: int, records: Produced) -> None:
        """Add records of the log: by their sequences they are those from `index` on."""
        count = len(records)
        if index < self.next:
            again = min(count, self.next - index)
            self._holes.append(_Hole(index, -again, self.last_offset, records.offset))
            if again == count:
                return
            records, index, count = records.part(again, count), index + again, count - again
        if index > self.next:
            self._holes.append(_Hole(self.next, index - self.next, self.last_offset, records.offset))
            self._seen.skip(index - self.next)
        self._seen.add_fields(records.values, records.keys, records.headers)
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.index + last.count == index and last.offset + last.count == records.offset:
            self._pieces[-1] = replace(last, count=last.count + count)
        else:
            self._pieces.append(_Piece(index, records.offset, count))
        self.next = index + count

    def end(self) -> None:
        """Note that the log has no more records of the run. Call this once, before asking for differences."""
        left = self.run.digest.records - self.next
        if left > 0:
            self._holes.append(_Hole(self.next, left, self.last_offset, -1))
            self._seen.skip(left)

    def differences(self, *, first_known: int = 0, may_lack: bool = False) -> Iterator[Difference]:
        """Yield where the log differs. Records before `first_known` may be missing; if it `may_lack` some, any may."""
        expected, seen = self.run.digest, self._seen.digest()
        holes = [_known(hole, expected.records if may_lack else first_known) for hole in self._holes]
        altered = sorted({*_unequal(expected.values, seen.values), *_unequal(expected.keys, seen.keys)})
        holes = [hole for hole in holes if hole.count]
        for hole in holes:
            yield self._of_hole(hole, altered)
        yield from (self._difference(DifferenceKind.ALTERED, *self._block(block)) for block in altered)
        if not self._holes and not altered and seen != expected:
            last = expected.records - 1
            text = "lengths of keys or values" if seen.lengths != expected.lengths else "headers"
            yield self._difference(DifferenceKind.FIELDS, self._offset(0), self._offset(last), last + 1, text)

    def _of_hole(self, hole: _Hole, altered: list[int]) -> Difference:
        """Return the difference of a hole, and take the blocks out of `altered` that it explains.

        If a record is lost before its batch is numbered, all later ones have another position, up to the end of the
        batch or the run, where one is missing: then the first block that differs says where.
        """
        kind = DifferenceKind.MISSING if hole.count > 0 else DifferenceKind.REPEATED
        count = abs(hole.count)
        begin = hole.index // BLOCK
        shifted = [block for block in altered if block <= begin]
        while shifted and shifted[0] + len(shifted) - 1 < shifted[-1]:
            shifted.pop(0)  # blocks that are as they should be lie between
        if shifted and shifted[-1] >= begin - 1:
            altered[:] = [block for block in altered if block not in shifted]
            first, last, _ = self._block(shifted[0])
            which = "one" if count == 1 else f"{count}"
            return self._difference(kind, first, last, count, f"{which} of these; those after it have moved")
        if kind is DifferenceKind.REPEATED:
            return self._difference(kind, hole.before, hole.before + count - 1, count)
        return self._difference(kind, hole.before if hole.before >= 0 else hole.after + 1, hole.after, count)

    def _difference(self, kind: DifferenceKind, first: int, last: int, records: int, detail: str = "") -> Difference:
        return Difference(kind, self.run.place, first, last, records, self.entry, detail)

    def _block(self, block: int) -> tuple[int, int, int]:
        first, stop = block * BLOCK, min((block + 1) * BLOCK, self.run.digest.records)
        return self._offset(first), self._offset(stop - 1), stop - first

    def _offset(self, index: int) -> int:
        """Return the offset of a record of the run, or of the nearest one that the log has."""
        at = max(0, bisect_right(self._pieces, index, key=lambda piece: piece.index) - 1)
        piece = self._pieces[at]
        return piece.offset + min(max(0, index - piece.index), piece.count - 1)


def _known(hole: _Hole, first_known: int) -> _Hole:
    deleted = min(max(0, first_known - hole.index), max(0, hole.count))
    return replace(hole, index=hole.index + deleted, count=hole.count - deleted)


def _unequal(expected: Sequence[int | None], seen: Sequence[int | None]) -> list[int]:
    """Return the blocks that differ. A column without any bytes has no checksums, which is the same as zeros."""
    pairs = enumerate(zip_longest(expected, seen, fillvalue=0))
    return [block for block, (one, other) in pairs if other is not None and one != other]


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
    deleted: _Count = field(default_factory=_Count)
    """Records of runs that are no longer in the log, because its beginning was deleted."""
    of_deleted_topic: _Count = field(default_factory=_Count)
    """Records of runs that were written to a deleted topic."""
    _replaced: _Count = field(default_factory=_Count)
    _left: int = 0
    _without_ledger: _Count = field(default_factory=_Count)

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

    def texts(self) -> Iterator[str]:
        """Yield a line for each reason there is."""
        if self.of_deleted_topic.runs:
            yield f"{_records(self.of_deleted_topic)} were written to a topic of this name that was deleted"
        if self.deleted.runs:
            yield f"{_records(self.deleted)} are deleted"
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


_number, _sequence = attrgetter("entry.number"), attrgetter("run.sequence")


class ProducerRuns:
    """The runs of one incarnation of a producer in one partition."""

    def __init__(self, checks: Sequence[RunCheck]) -> None:
        self._laps: list[list[RunCheck]] = []  # each with growing sequences; the last run of one may begin another lap
        last = SEQUENCES
        for check in sorted(checks, key=_number):
            if check.run.sequence <= last:
                self._laps.append([])
            last = check.run.sequence
            self._laps[-1].append(check)

    def find(self, sequence: int, offset: int) -> tuple[RunCheck, int] | None:
        """Return the run of a record, and its index there."""
        for lap in reversed(self._laps):
            check = lap[bisect_right(lap, sequence, key=_sequence) - 1]  # the last one, if the first begins later
            index = (sequence - check.run.sequence) % SEQUENCES
            if index < check.run.digest.records and (len(self._laps) == 1 or lap[0].run.after < offset):
                return check, index
        return None

    def until_next(self, sequence: int) -> int:
        """Return how many sequences there are before the next run; at least one."""
        ahead = [(each.run.sequence - sequence) % SEQUENCES for lap in self._laps for each in _around(lap, sequence)]
        return min(filter(None, ahead), default=SEQUENCES)

    def have_before(self, sequence: int) -> bool:
        """Return whether a run began before this sequence."""
        return len(self._laps) > 1 or self._laps[0][0].run.sequence < sequence


def _around(lap: Sequence[RunCheck], sequence: int) -> Sequence[RunCheck]:
    at = bisect_right(lap, sequence, key=_sequence)
    return [lap[0], *lap[at : at + 1]]


_Producer = tuple[int, int]  # its id and its epoch


@dataclass(frozen=True, slots=True)
class LogExtent:
    """Which part of a log is read, and what may be missing in it for a good reason.

    `start` is its first offset, `end` the offset up to which it is read. What was written before `settled` has its
    entry in the part of the ledger that was read, if it has one. `has_open`: a transaction is open before the log's
    end, so the newest entries may describe what cannot be read yet. `is_compacted`: its records may be removed.
    `topic_id`: that of the present topic.
    """

    start: int
    settled: int
    end: int
    has_open: bool = False
    is_compacted: bool = False
    topic_id: str = ""


@dataclass(slots=True)
class _Chain:
    """How far the runs of one task were judged: the log has them in the order of their entries.

    `seen` is the last offset of those that were seen, -1 if none was. The next run begins at offset `least` or later.
    """

    seen: int = -1
    least: int = 0


class PartitionAudit:
    """The audit of one partition. `add` takes its committed records in order, `findings` returns what was found."""

    def __init__(self, place: TopicPartition, runs: LedgerRuns, extent: LogExtent) -> None:
        """`runs` are those of all partitions."""
        self._runs, self._extent = runs, extent
        checks = [RunCheck(entry, run) for entry, run in runs.of_place.get(place, ())]
        of_producer: dict[_Producer, list[RunCheck]] = defaultdict(list)
        self._of_task: dict[tuple[object, ...], list[RunCheck]] = defaultdict(list)
        for check in checks:
            producer = check.run.producer_id, check.run.producer_epoch
            of_producer[producer].append(check)
            # Without an order of the entries, only those of one producer are known to follow each other.
            self._of_task[(check.entry.writer.task,) if runs.are_ordered else producer].append(check)
        self._of_producer = {producer: ProducerRuns(found) for producer, found in of_producer.items()}
        self._others: list[Produced] = []
        self._followed: set[_Producer] = set()
        self._found = PartitionFindings(place, extent.start, extent.end)
        self._notes = PartitionNotes(is_whole=runs.are_whole)

    def add(self, records: Produced) -> None:
        """Attribute records to the runs of the ledger."""
        while len(records):
            runs = self._of_producer.get(records.producer)
            found = None if runs is None else runs.find(records.sequence, records.offset)
            if found is not None:
                check, index = found
                count = min(len(records), check.run.digest.records - index)
                check.add(index, records.part(0, count))
            else:
                count = len(records) if runs is None else min(len(records), runs.until_next(records.sequence))
                self._other(records.part(0, count))
            records = records.part(count, len(records))

    def _other(self, records: Produced) -> None:
        self._found.others += len(records)
        if records.producer[0] in self._runs.incarnations:
            self._others.append(records)

    def findings(self) -> PartitionFindings:
        """Return what was found, once everything was added."""
        found = self._found
        for checks in self._of_task.values():
            self._judge_all(checks if self._runs.are_ordered else sorted(checks, key=_number))
        for others in self._others:
            self._judge_other(others)
        found.notes = [*self._notes.texts()]
        found.differences.sort(key=lambda each: (each.first, each.last))
        return found

    def _judge_all(self, checks: Sequence[RunCheck]) -> None:
        chain = _Chain()
        newest = max((at for at, check in enumerate(checks) if check.is_seen), default=-1)
        for at, check in enumerate(checks):
            if not self._is_of_this_topic(check):
                if not check.is_seen:
                    self._notes.of_deleted_topic.add(check.run.digest.records)
                    continue
            elif check.run.after >= chain.least:
                chain.least = check.run.after + 1
            self._judge(check, chain, is_newest=at >= newest)
            chain.least += check.run.digest.records
            chain.seen = max(chain.seen, check.last_offset)

    def _is_of_this_topic(self, check: RunCheck) -> bool:
        """Return whether a run was written to the present topic, and not to a deleted one of this name.

        A producer may learn only later that its topic was created again: its records decide then.
        """
        ids = check.run.topic_id, self._extent.topic_id
        return not all(ids) or ids[0] == ids[1]

    def _judge(self, check: RunCheck, chain: _Chain, *, is_newest: bool) -> None:
        found, records, start = self._found, check.run.digest.records, self._extent.start
        check.end()
        # What comes after a record that is there was not deleted from the beginning of the log, nor from `start` on.
        may_be_deleted = 0 if chain.seen >= 0 else max(0, start - chain.least)
        expired = min(check.begins_at, may_be_deleted)
        if check.lacks_end and is_newest and self._extent.has_open and expired < records:
            self._found.is_complete = False
            self._notes.is_open = True
            return
        if self._extent.is_compacted:
            self._judge_compacted(check)
            return
        if expired:
            self._notes.deleted.add(expired)
        if check.is_seen:
            self._take(check, check.differences(first_known=expired))
        elif expired < records:
            kind, after = DifferenceKind.MISSING, max(chain.seen, start - 1)
            text = "a whole run" if not expired else "the rest of a run whose beginning is deleted"
            found.differences.append(
                Difference(kind, found.place, after + 1, after, records - expired, check.entry, text)
            )

    def _judge_compacted(self, check: RunCheck) -> None:
        """Judge a run of which any record may have been replaced by a newer one."""
        records = check.run.digest.records
        if check.is_seen:
            self._take(check, check.differences(may_lack=True))
        if check.seen < records:
            self._notes.replaced(records - check.seen, left=check.seen - check.compared if check.is_seen else 0)

    def _take(self, check: RunCheck, differences: Iterable[Difference]) -> None:
        taken = list(differences)
        self._found.differences += taken
        self._found.verified += 0 if taken else check.compared

    def _judge_other(self, records: Produced) -> None:
        """Judge records of a producer that the ledger knows, of a run that it does not have."""
        if records.offset >= self._extent.settled:
            return
        first, last = records.offset, records.offset + len(records) - 1
        if not self._is_of_ledger(records):
            self._notes.without_ledger(first, last)
            return
        kind = DifferenceKind.WITHOUT_ENTRY
        self._found.others -= len(records)
        self._found.differences.append(Difference(kind, self._found.place, first, last, len(records)))

    def _is_of_ledger(self, records: Produced) -> bool:
        """Return whether an incarnation wrote these records that wrote entries before them, and goes on for certain."""
        producer_id, epoch = records.producer
        epochs = self._runs.incarnations[producer_id]
        at = bisect_left(epochs, (epoch, ""))
        if at < len(epochs) and epochs[at][0] == epoch:
            runs = self._of_producer.get(records.producer)
            return self._runs.are_whole or (runs is not None and runs.have_before(records.sequence))
        if 0 < at < len(epochs) and epochs[at - 1][1] == epochs[at][1]:
            return True
        return self._runs.are_all_there and self._follows(records.producer, epochs[max(0, at - 2) : at])

    def _follows(self, producer: _Producer, before: Sequence[tuple[int, str]]) -> bool:
        """Return whether a producer's epoch is the next one of the incarnation of the two entries `before`, by epoch.

        With version 2 of the transaction protocol (KIP-890) the end of a transaction gives its producer the next epoch,
        and a successor that takes over the id at least one more. With version 1 only a successor gets the next one. An
        incarnation whose entries have two epochs has version 2.
        """
        producer_id, epoch = producer
        if len(before) < 2 or before[-1][1] != before[-2][1]:
            return False
        is_next = before[-1][0] == epoch - 1 or (producer_id, epoch - 1) in self._followed
        if is_next:
            self._followed.add(producer)
        return is_next
