"""Compares the partitions of a source cluster with their copies. Both ends can be read, so this needs no ledger.

Nothing is changed, and the mirror may run meanwhile. The order of steps avoids false alarms:

1. The caller has read up to where the mirror has committed: what comes before that is at the target.
2. Wait, if necessary, until everything can be read that the target has by now.
3. Read both ends of each partition, and compare them record by record.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.kafka.admin.client import Admin
from fencepost.ledger.copy_check import CopyCheck, RecordStream, aligned
from fencepost.ledger.finding import Findings, PartitionFindings
from fencepost.ledger.log import OnPartition, await_committed, compacted, existing, read_log
from fencepost.record import TopicPartition


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
