"""Compares the partitions of a source cluster with their copies. Both ends can be read, so this needs no ledger.

Nothing is changed, and the mirror may run meanwhile. The order of steps avoids false alarms:

1. The caller has read up to where the mirror has committed: what comes before that is at the target.
2. Wait, if necessary, until everything can be read that the target has by now.
3. Read both ends of each partition, and compare them record by record.

Compares a log with its copy, record by record: what the copy lacks, has twice, or has changed.

Where they differ, the nearest place is looked for at which they are the same again. What the copy has besides belongs
to others, unless the log had the same record shortly before.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import eq, ne
from typing import Any

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.produced import Produced
from fencepost.ledger.finding import Difference, DifferenceKind, Findings, PartitionFindings
from fencepost.ledger.log import OnPartition, await_committed, compacted, existing, read_log
from fencepost.record import TopicPartition


class RecordStream:
    """Records of which the first ones can be looked at. Of each there is its offset, and a hash of what it contains.

    Hashes are those of this process: equal keys, values and headers give the same.
    """

    def __init__(self, pieces: Iterator[Produced]) -> None:
        self._pieces = pieces
        self.offsets: list[int] = []
        self.hashes: list[int] = []

    def fill(self, count: int) -> int:
        """Read until there are `count` records to look at, or no more come. Returns how many there are."""
        while len(self.hashes) < count and (piece := next(self._pieces, None)) is not None:
            self.offsets += range(piece.offset, piece.offset + len(piece))
            self.hashes += _hashes(piece)
        return len(self.hashes)

    def skip(self, count: int) -> None:
        """Drop records from the beginning."""
        del self.offsets[:count], self.hashes[:count]


def _hashes(records: Produced) -> Iterator[int]:
    keys, values = records.keys.to_pylist(), records.values.to_pylist()
    if records.headers is None:
        return map(hash, zip(keys, values, strict=True))
    bare = [tuple(map(tuple, each)) for each in records.headers]
    rows = zip(keys, values, bare, strict=True)
    return (hash(row if row[2] else row[:2]) for row in rows)


_WINDOW = 50_000
"""So many records are looked at together."""
_FAR = 1_000_000
"""So many, if neither end has what the other one has. Where more are missing at once, the rest is compared badly."""
_NEAR = 256
"""So many are looked at first: most differences are short."""
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
        near = log.hashes[:_NEAR], copy.hashes[:_NEAR]
        found = _nearest(*near)
        if found is None or max(found) > _NEAR - _SAME:  # there, fewer than enough are looked at
            found = _altered(*near) or _nearest(log.hashes, copy.hashes)
        if found is None and _are_unknown(log.hashes, copy.hashes):
            log.fill(_FAR)
            copy.fill(_FAR)
            found = _nearest(log.hashes, copy.hashes)
        lacking, extra = found or _one_by_one(log.hashes, copy.hashes)
        if not extra:
            self._lack(log, lacking, copy)
        elif not lacking:
            self._have_more(copy, extra)
        else:
            last = log.offsets[lacking - 1]
            kind = DifferenceKind.ALTERED
            self._differ(kind, self.found.place, log.offsets[0], lacking, f"see offset {copy.offsets[0]}", last)
            log.skip(lacking)
            copy.skip(extra)

    def _lack(self, log: RecordStream, lacking: int, copy: RecordStream) -> None:
        if not copy.hashes and not self.is_whole:
            self.found.is_complete = False
        elif not self.may_lack:
            at = f"before its offset {copy.offsets[0]}" if copy.offsets else "at its end"
            self._differ(
                DifferenceKind.MISSING, self.found.place, log.offsets[0], lacking, at, log.offsets[lacking - 1]
            )
        log.skip(lacking)

    def _have_more(self, copy: RecordStream, extra: int) -> None:
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
    shorter = min(len(one), len(other))
    for start in range(0, shorter, _NEAR):
        part, expected = one[start : start + _NEAR], other[start : start + _NEAR]
        if part != expected:
            return start + next(compress(count(), map(ne, part, expected)), min(len(part), len(expected)))
    return shorter


def _nearest(log: list[int], copy: list[int]) -> tuple[int, int] | None:
    """Return how many of both to leave out for the nearest place where so many are the same; None without such a place.

    Either none of one, or equally many of both, which are altered then.
    """
    altered = _same_again(log, copy)
    steps = [(_place_of(copy, log), 0), (0, _place_of(log, copy)), (altered, altered)]
    return min([(one, other) for one, other in steps if one is not None and other is not None], key=max, default=None)


def _are_unknown(log: list[int], copy: list[int]) -> bool:
    """Return whether the other one does not have the first of any of both."""
    return copy[0] not in log and log[0] not in copy


def _altered(log: list[int], copy: list[int]) -> tuple[int, int] | None:
    """Return the same for records that are certainly altered, if one after them is the same; else None."""
    at = next(compress(count(), map(eq, log, copy)), None) if _are_unknown(log, copy) else None
    return None if at is None else (at, at)


def _one_by_one(log: list[int], copy: list[int]) -> tuple[int, int]:
    """Return the same where several differ nearby, so that one that is the same has to be enough."""
    in_log, in_copy = {*log}, {*copy}
    altered = 0
    for one, other in zip(log, copy, strict=False):
        if one in in_copy or other in in_log:
            break
        altered += 1
    if altered:
        return altered, altered
    lacking, extra = _place_of(copy, log, 1), _place_of(log, copy, 1)
    return (0, extra or 0) if lacking is None or (extra is not None and extra < lacking) else (lacking, 0)


def _same_again(one: list[int], other: list[int]) -> int | None:
    """Return from where on so many are the same at the same place; None if they are not."""
    for at in compress(count(), map(eq, one, other)):
        if one[at : at + _SAME] == other[at : at + _SAME]:
            return at
    return None


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


@dataclass(frozen=True, slots=True)
class MirroredPartition:
    """A partition of the source, where its records go, and the offset up to which they are there."""

    place: TopicPartition
    copy: TopicPartition
    end: int


@dataclass(frozen=True, slots=True)
class MirrorScope:
    """What is compared.

    Attributes:
        source_conf: how to read the source, made by `range_conf`; `target_conf`: how to read the target.
        partitions: the mirror's partitions.
        from_start: whether the mirror begins with the oldest records.
    """

    source_conf: Mapping[str, Any]
    target_conf: Mapping[str, Any]
    partitions: Sequence[MirroredPartition]
    from_start: bool = True


@dataclass
class MirrorReport(Findings):
    """What the audit of a mirror has found. Partitions are those of the source."""


@dataclass(frozen=True, slots=True)
class _Extent:
    start: int
    end: int
    is_whole: bool


class MirrorAudit:
    """Reads two clusters."""

    def __init__(self, connector: str, scope: MirrorScope, *, wait_s: float = 10.0) -> None:
        """Transactions that are open at the target are waited for at most `wait_s`."""
        self._connector, self._scope, self._wait_s = connector, scope, wait_s
        self._source = Admin(scope.source_conf, timeout_s=30.0)
        self._target = Admin(scope.target_conf, timeout_s=30.0)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._source.close()
        self._target.close()

    def run(self, topics: Collection[str] = (), on_read: OnPartition | None = None) -> MirrorReport:
        """Compare; only these `topics` of the source if there are any.

        Raises CorruptBatchError, FatalError, and what `Admin` raises.
        """
        report = MirrorReport(self._connector)
        wanted = [each for each in self._scope.partitions if not topics or each.place.topic in topics]
        sources = existing(self._source, [each.place for each in wanted])
        targets = existing(self._target, [each.copy for each in wanted])
        gone = {each.place for each in wanted} - {*sources} | {each.copy for each in wanted} - {*targets}
        report.notes += [f"{place.topic}-{place.partition} does not exist" for place in sorted(gone)]
        there = [each for each in wanted if each.place in sources and each.copy in targets]
        places = [each.place for each in there]
        starts, ends = self._source.offsets.starts(places), self._source.offsets.ends(places, read_committed=True)
        extents = self._extents([each.copy for each in there])  # 2
        lossy = compacted(self._target, [each.copy for each in there])
        for each in there:
            found = PartitionFindings(each.place, starts[each.place], each.end)
            may_lack = each.copy.topic in lossy
            check = CopyCheck(found, each.copy, may_lack=may_lack, is_whole=extents[each.copy].is_whole)
            if may_lack:
                found.notes.append(f"{each.copy.topic} is compacted: what it lacks, newer records may have replaced")
            if each.end > ends[each.place]:
                found.is_complete = False
                found.notes.append(f"the source ends at offset {ends[each.place]}, before the mirror's position")
            else:
                self._compare(check, each, extents[each.copy], on_read)  # 3
            report.partitions.append(found)
        return report

    def _extents(self, copies: Sequence[TopicPartition]) -> dict[TopicPartition, _Extent]:
        """Return which part of each copy to read. What an open transaction hides is waited for, up to the time-out."""
        offsets = self._target.offsets
        written = offsets.ends(copies, read_committed=False)
        ends = await_committed(self._target, written, self._wait_s)
        starts = offsets.starts(copies)
        return {copy: _Extent(starts[copy], ends[copy], ends[copy] >= written[copy]) for copy in copies}

    def _compare(self, check: CopyCheck, each: MirroredPartition, copied: _Extent, on_read: OnPartition | None) -> None:
        found = check.found

        def log() -> RecordStream:
            return RecordStream(read_log(self._scope.source_conf, each.place, found.start, each.end, on_read))

        def copy() -> RecordStream:
            return RecordStream(read_log(self._scope.target_conf, each.copy, copied.start, copied.end))

        if not copied.is_whole:
            found.notes.append("a transaction is open at the target, so the newest records cannot be read yet")
        may_begin_later = copied.start > 0 or not self._scope.from_start
        pairs = self._begun(check, log, copy, may_begin_later=may_begin_later, may_lack=found.start > 0)
        if pairs is not None:
            check.run(*pairs)

    def _begun(
        self,
        check: CopyCheck,
        log: Callable[[], RecordStream],
        copy: Callable[[], RecordStream],
        *,
        may_begin_later: bool,
        may_lack: bool,
    ) -> tuple[RecordStream, RecordStream] | None:
        """Return both ends from the first record that both have; None if they share none.

        `may_begin_later`: the copy may lack the oldest records; `may_lack`: the source may.
        """
        found, pair = check.found, (log(), copy())
        if not (may_begin_later or may_lack) or not pair[0].fill(1):
            return pair
        if may_begin_later and (skipped := aligned(*pair)) is not None:
            if skipped:
                found.notes.append(f"{skipped} records before the first one of the copy were not compared")
            return pair
        pair = log(), copy()
        if may_lack and (skipped := aligned(pair[1], pair[0])) is not None:
            if skipped:
                found.notes.append(f"{skipped} records of the copy are deleted from the source")
            return pair
        found.is_complete = False
        found.notes.append("the oldest records of one end are not at the other, so it is not known what to compare")
        return None
