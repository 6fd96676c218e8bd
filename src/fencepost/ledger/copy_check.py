"""Compares a log with its copy, record by record: what the copy lacks, has twice, or has changed.

Where they differ, the nearest place is looked for at which they are the same again. What the copy has besides belongs
to others, unless the log had the same record shortly before.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import compress, count
from operator import ne

from fencepost.ledger.finding import Difference, DifferenceKind, PartitionFindings
from fencepost.ledger.record_stream import RecordStream
from fencepost.record import TopicPartition

_WINDOW = 50_000
"""So many records are looked at together. Where more than that are missing at once, the rest is compared badly."""
_SAME = 4
"""So many records in a row have to be the same for two places to be taken for the same one."""


@dataclass
class CopyCheck:
    """Compares the records of one partition with those of `copy`.

    `may_lack`: what is missing is no difference, as in a copy that is compacted. `is_whole`: all of the copy can be
    read, so what it lacks at its end is missing.
    """

    found: PartitionFindings
    copy: TopicPartition
    may_lack: bool = False
    is_whole: bool = True
    _recent: deque[int] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def run(self, log: RecordStream, copy: RecordStream) -> None:
        """Compare everything that both have."""
        while log.fill(_WINDOW) and copy.fill(_WINDOW):
            same = _same(log.hashes, copy.hashes)
            self._recent.extend(log.hashes[:same])
            self.found.verified += same
            log.skip(same)
            copy.skip(same)
            if log.fill(_WINDOW) and copy.fill(_WINDOW) and log.hashes[0] != copy.hashes[0]:
                self._mend(log, copy)
        while left := log.fill(_WINDOW):
            self._lack(log, left, copy)

    def _mend(self, log: RecordStream, copy: RecordStream) -> None:
        """Continue where both are the same again."""
        lacking = extra = None
        for same in (_SAME, 1):  # one is enough where several differ nearby
            if lacking is None and extra is None:
                lacking, extra = (
                    _place_of(copy.hashes, log.hashes, same),
                    _place_of(log.hashes, copy.hashes, same),
                )
        if lacking is None and extra is None:
            self._differ(DifferenceKind.ALTERED, self.found.place, log.offsets[0], 1, f"see offset {copy.offsets[0]}")
            log.skip(1)
            copy.skip(1)
        elif lacking is None or (extra is not None and extra < lacking):
            self._have_more(copy, extra or 0)
        else:
            self._lack(log, lacking, copy)

    def _lack(self, log: RecordStream, lacking: int, copy: RecordStream) -> None:
        """Take records that the copy does not have at its present place."""
        if not copy.hashes and not self.is_whole:
            self.found.is_complete = False
        elif not self.may_lack:
            at = f"before its offset {copy.offsets[0]}" if copy.offsets else "at its end"
            self._differ(
                DifferenceKind.MISSING, self.found.place, log.offsets[0], lacking, at, log.offsets[lacking - 1]
            )
        log.skip(lacking)

    def _have_more(self, copy: RecordStream, extra: int) -> None:
        """Take records that only the copy has at its present place."""
        known = {*self._recent} if extra > _SAME else self._recent
        for offset, hash_ in zip(copy.offsets[:extra], copy.hashes[:extra], strict=True):
            if hash_ in known:
                self._differ(DifferenceKind.REPEATED, self.copy, offset, 1, "")
            else:
                self.found.others += 1
        copy.skip(extra)

    def _differ(
        self, kind: DifferenceKind, place: TopicPartition, first: int, records: int, where: str, last: int | None = None
    ) -> None:
        """Note a difference; one that follows another of its kind belongs to it."""
        differences = self.found.differences
        before = differences[-1] if differences else None
        last = first if last is None else last
        name = f"{self.copy.topic}-{self.copy.partition}"
        if before is not None and (before.kind, before.place) == (kind, place) and before.last == first - 1:
            differences[-1] = Difference(
                kind, place, before.first, last, before.records + records, detail=before.detail
            )
            return
        detail = f"in {name}, {where}" if where else ""
        differences.append(Difference(kind, place, first, last, records, detail=detail))


def _same(one: list[int], other: list[int]) -> int:
    """Return how many of the first numbers are the same in both."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(compress(count(), map(ne, one, other)))


def _place_of(wanted: list[int], within: list[int], same: int = _SAME) -> int | None:
    """Return where the first of the wanted numbers come next, so many in a row; None if they do not."""
    at = -1
    while True:
        try:
            at = within.index(wanted[0], at + 1)
        except ValueError:
            return None
        length = min(same, len(wanted), len(within) - at)
        if within[at : at + length] == wanted[:length]:
            return at


def aligned(log: RecordStream, copy: RecordStream) -> int | None:
    """Skip records of the log up to where the copy begins. Returns how many; None if that is not found."""
    skipped = 0
    while True:
        there = log.fill(_WINDOW)
        at = _place_of(copy.hashes[:_SAME], log.hashes) if copy.fill(_SAME) else None
        if at is not None:
            log.skip(at)
            return skipped + at
        if there < _WINDOW:
            return None
        log.skip(there - _SAME)
        skipped += there - _SAME
