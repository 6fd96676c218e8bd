"""Compares the log of one partition with what a ledger says about it."""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

from fencepost.kafka.codec.encode_header import SEQUENCES
from fencepost.kafka.read.produced import Produced
from fencepost.ledger.entries import LedgerRuns
from fencepost.ledger.finding import Difference, DifferenceKind, PartitionFindings
from fencepost.ledger.run_check import RunCheck
from fencepost.record import TopicPartition

_Producer = tuple[int, int]  # its id and its epoch


@dataclass(frozen=True, slots=True)
class LogExtent:
    """Which part of a log is read, and what may be missing in it for a good reason.

    `start` is its first offset, `end` the offset up to which it is read. What was written before `settled` has its
    entry in the part of the ledger that was read, if it has one. `has_open`: a transaction is open before the log's
    end, so the newest entries may describe what cannot be read yet. `is_compacted`: its records may be removed.
    """

    start: int
    settled: int
    end: int
    has_open: bool = False
    is_compacted: bool = False


class PartitionAudit:
    """The audit of one partition. `add` takes its committed records in order, `findings` returns what was found."""

    def __init__(self, place: TopicPartition, runs: LedgerRuns, extent: LogExtent) -> None:
        """`runs` are those of all partitions."""
        self._runs, self._extent = runs, extent
        self._checks: dict[_Producer, list[RunCheck]] = defaultdict(list)
        for entry, run in runs.of_place.get(place, ()):
            self._checks[run.producer_id, run.producer_epoch].append(RunCheck(entry, run))
        for checks in self._checks.values():
            checks.sort(key=_sequence)
        self._firsts: dict[int, tuple[int, int]] = {}  # the first epoch and sequence that the log has, by producer id
        self._lasts: dict[int, tuple[int, int]] = {}
        self._others: list[Produced] = []
        self._found = PartitionFindings(place, extent.start, extent.end)
        self._notes: dict[str, None] = {}  # each once, in their order

    def add(self, records: Produced) -> None:
        """Attribute records to the runs of the ledger."""
        while len(records):
            check, index = self._check_of(records)
            if check is None:
                count = self._until_next(records)
                self._other(records.part(0, count))
            else:
                count = min(len(records), check.run.digest.records - index)
                check.add(index, records.part(0, count))
                self._see(records, count)
            records = records.part(count, len(records))

    def _see(self, records: Produced, count: int) -> None:
        producer_id, epoch = records.producer
        self._firsts.setdefault(producer_id, (epoch, records.sequence))
        self._lasts[producer_id] = (epoch, records.sequence + count - 1)

    def _check_of(self, records: Produced) -> tuple[RunCheck | None, int]:
        """Return the run that the first of these records belongs to, and its index there."""
        checks = self._checks.get(records.producer, ())
        at = bisect_right(checks, records.sequence, key=_sequence) - 1
        if checks:  # sequences begin with 0 again after 2^31: then the last run may contain this one
            check = checks[at]
            index = (records.sequence - check.run.sequence) % SEQUENCES
            if index < check.run.digest.records:
                return check, index
        return None, 0

    def _until_next(self, records: Produced) -> int:
        """Return how many of these records come before the next run of the ledger."""
        checks = self._checks.get(records.producer, ())
        at = bisect_right(checks, records.sequence, key=_sequence)
        return min(len(records), _sequence(checks[at]) - records.sequence) if at < len(checks) else len(records)

    def _other(self, records: Produced) -> None:
        self._found.others += len(records)
        if records.producer[0] in self._runs.incarnations:
            self._others.append(records)

    def findings(self) -> PartitionFindings:
        """Return what was found, once everything was added."""
        found = self._found
        afters: dict[int, int] = {}  # the last offset of a producer's records up to a run, by its id
        for producer, checks in sorted(self._checks.items()):
            for check in checks:
                after = afters.get(producer[0], -1)
                self._judge(producer, check, after)
                afters[producer[0]] = max(after, check.last_offset)
        for others in self._others:
            self._judge_other(others)
        found.notes = [*self._notes]
        found.differences.sort(key=lambda each: (each.first, each.last))
        return found

    def _judge(self, producer: _Producer, check: RunCheck, after: int) -> None:
        """Judge a run. `after` is the last offset of the producer's records before it, -1 if there are none."""
        found, records = self._found, check.run.digest.records
        order = (producer[1], check.run.sequence)
        is_first = self._firsts.get(producer[0], order) >= order
        if not check.is_seen:
            self._judge_unseen(producer[0], check, after, is_first=is_first)
            return
        expired = check.begins_at if is_first and self._extent.start > 0 else 0
        if expired:
            self._note(f"{expired} records of entry {check.entry.number} are deleted")
        differences = list(check.differences(first_known=expired))
        if self._extent.is_compacted and any(each.kind is DifferenceKind.MISSING for each in differences):
            self._note("the topic is compacted, so records that are missing may have been replaced by newer ones")
            differences = [each for each in differences if each.kind is not DifferenceKind.MISSING]
        elif check.next < records and self._may_be_open(producer[0], check):
            self._open()
            return
        found.differences += differences
        found.verified += 0 if differences else records - expired

    def _judge_unseen(self, producer_id: int, check: RunCheck, after: int, *, is_first: bool) -> None:
        records, number = check.run.digest.records, check.entry.number
        if self._extent.start > 0 and is_first:
            self._note(f"{records} records of entry {number} are deleted, or lost from the beginning of the log")
        elif self._extent.is_compacted:
            self._note("the topic is compacted, so records that are missing may have been replaced by newer ones")
        elif self._may_be_open(producer_id, check):
            self._open()
        else:
            self._found.differences.append(
                Difference(
                    DifferenceKind.MISSING, self._found.place, after + 1, after, records, check.entry, "a whole run"
                )
            )

    def _may_be_open(self, producer_id: int, check: RunCheck) -> bool:
        """Return whether the rest of a run may come after the end of what can be read."""
        end = check.run.producer_epoch, check.run.sequence + check.run.digest.records
        return self._extent.has_open and self._lasts.get(producer_id, end) <= end

    def _open(self) -> None:
        self._found.is_complete = False
        self._note("a transaction is open, so the newest records cannot be read yet: repeat the audit")

    def _judge_other(self, records: Produced) -> None:
        """Judge records of a producer that the ledger knows, of a run that it does not have."""
        if records.offset >= self._extent.settled:
            return
        first, last = records.offset, records.offset + len(records) - 1
        if not self._is_of_ledger(records):
            text = (
                "at a time without a ledger" if self._runs.are_whole else "before the oldest entry, or without a ledger"
            )
            self._note(f"offsets {first} to {last} were written {text}")
            return
        kind = DifferenceKind.WITHOUT_ENTRY
        self._found.others -= len(records)
        self._found.differences.append(Difference(kind, self._found.place, first, last, len(records)))

    def _is_of_ledger(self, records: Produced) -> bool:
        """Return whether an incarnation wrote these records that wrote entries both before and after them."""
        producer_id, epoch = records.producer
        epochs = self._runs.incarnations[producer_id]
        if any(each == epoch for each, _ in epochs):
            checks = self._checks.get(records.producer, ())
            return self._runs.are_whole or any(check.run.sequence < records.sequence for check in checks)
        at = bisect_right(epochs, (epoch, ""))
        return 0 < at < len(epochs) and epochs[at - 1][1] == epochs[at][1]

    def _note(self, text: str) -> None:
        self._notes[text] = None


def _sequence(check: RunCheck) -> int:
    return check.run.sequence
