"""The positions of a sink's task, and which of them are committed: flush first, then commit what the task allows
(E13).
"""

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.api import ConnectError, FatalError, SinkTask
from fencepost.hook.hosted_task import RefusedReportError
from fencepost.kafka.read.known_positions import Restart
from fencepost.record import TopicPartition
from fencepost.task.failure.dead_letter_producer import DeadLetters
from fencepost.task.sink.context import SinkContext, SinkInput
from fencepost.task.sink.reader import Offsets
from fencepost.task.start.run import SinkCounters, TaskRun


@dataclass
class SinkPositions:
    """The next offset of each partition, as four parties see it."""

    taken: dict[TopicPartition, int] = field(default_factory=dict)  # the next offset for `put`
    safe: dict[TopicPartition, int] = field(default_factory=dict)  # from where records are put again if a flush fails
    stored: dict[TopicPartition, int] = field(default_factory=dict)  # in the group; without partitions that have none
    fresh: dict[TopicPartition, int] = field(default_factory=dict)  # ends where the group begins, not committed yet
    other: set[TopicPartition] = field(default_factory=set)  # where what is `stored` is of another log
    restarted: set[TopicPartition] = field(default_factory=set)  # to be flushed before records are put
    gone: dict[TopicPartition, int] = field(default_factory=dict)  # before these offsets a log has nothing that was put

    @property
    def uncommitted(self) -> int:
        """Return how many offsets were taken and are not safe yet."""
        return sum(offset - self.safe.get(place, offset) for place, offset in self.taken.items())

    def begin(self, positions: Offsets, fresh: Collection[TopicPartition]) -> None:
        """Add partitions; the group has no offsets of the partitions in `fresh`."""
        self.go_back(positions)
        # Offsets that the group lacks are committed even without records: else the next member would reset again.
        self.stored.update((place, offset) for place, offset in positions.items() if place not in fresh)

    def go_back(self, offsets: Offsets) -> None:
        """Continue at these offsets: later records count as not taken."""
        self.taken.update(offsets)
        self.safe.update(offsets)
        self._read_again(offsets)

    def _read_again(self, firsts: Offsets) -> None:
        self.gone.update((place, offset) for place, offset in firsts.items() if offset < self.gone.get(place, 0))

    def restart(self, restarts: Mapping[TopicPartition, Restart], *, is_latest: bool) -> None:
        """Continue where reading does: a log was cut, or has nothing at the position.

        What was put of what is gone cannot be put again, whether it is flushed or not. With `is_latest`, the group, and
        a task with offsets of its own, have to have the new ones before records are put.
        """
        for place, (offset, is_cut) in restarts.items():
            if place in self.taken:
                self.taken[place] = offset
                self.safe[place] = min(self.safe[place], offset) if is_cut else offset
                self.gone[place] = min(self.gone.get(place, 0), offset) if is_cut else offset
                self.other.add(place)
                if is_latest and self.safe[place] == offset:  # else the group has an offset in what is left
                    self.fresh[place] = offset
                    self.restarted.add(place)

    def begin_below(self, firsts: Offsets) -> None:
        """Record that reading went back below the taken offsets: a log was cut, or a topic created again."""
        below = {place: offset for place, offset in firsts.items() if offset < self.taken.get(place, offset)}
        self.taken.update(below)
        below = {place: offset for place, offset in below.items() if offset < self.safe[place]}
        self.safe.update(below)
        self.other.update(below)
        self._read_again(below)

    def take(self, covered: Offsets) -> None:
        """Count records below these offsets as taken, unless their partition was revoked meanwhile."""
        self.taken.update((place, offset) for place, offset in covered.items() if place in self.taken)

    def reach(self, ends: Offsets) -> None:
        """Count invisible records as taken: else a topic of transactions would always seem to have one record left."""
        self.take({place: end for place, end in ends.items() if end > self.taken.get(place, end)})

    def committed(self, offsets: Offsets) -> None:
        """Record which offsets the group has."""
        self.stored.update(offsets)
        self.other.difference_update(offsets)
        self.fresh = {place: end for place, end in self.fresh.items() if place not in offsets}

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        self.other.difference_update(partitions)
        self.restarted.difference_update(partitions)
        for place in partitions:
            for offsets in (self.taken, self.safe, self.stored, self.fresh, self.gone):
                offsets.pop(place, None)


log = logging.getLogger(__name__)

_COMMIT, _FLUSH = "commit", "flush"
_SOON_S = 1.0


class FlushedOffsets(NamedTuple):
    """The result of a flush: the offsets that may be committed, and those from which the task continues."""

    allowed: Offsets
    rewinds: Offsets
    begun_s: float


@dataclass
class SinkCommits:
    """Flushes one task instance and commits its offsets.

    `refusal` is why a dead letter can never be written, if a last commit has found out: other partitions are released
    before the task fails.
    """

    run: TaskRun[SinkCounters]
    task: SinkTask
    context: SinkContext
    positions: SinkPositions
    dead_letters: DeadLetters | None
    refusal: FatalError | None = None

    def __post_init__(self) -> None:
        self._set_due()

    def _set_due(self) -> None:
        self.due_s = time.monotonic() + self.run.spec.commits.offset_flush_interval_ms / 1000

    @property
    def is_due(self) -> bool:
        return self.context.is_commit_requested or time.monotonic() >= self.due_s

    def schedule(self) -> None:
        """Set when the next commit is due, unless the task requests one earlier: soon, if records wait for it."""
        self.context.is_commit_requested = False
        self._set_due()
        if self.positions.restarted:
            self.due_s = min(self.due_s, time.monotonic() + _SOON_S)

    def has_begun(self, input_: SinkInput) -> bool:
        """Commit the ends of logs at which the group begins, and say whether it has them all.

        Nothing is put before that: a successor would begin at a later end, and skip the records in between.
        """
        if self.positions.restarted:
            return False
        if not self.positions.fresh:
            return True
        try:
            committed = input_.commit(dict(self.positions.fresh))
        except ConnectError as error:
            self.run.counters.commit_failed()
            self._tries_again("its starting offsets are not committed yet; retrying", error)
            return False
        self.positions.committed(committed)
        self.positions.fresh.clear()
        self.run.counters.errors.retried.passed(_COMMIT)
        return True

    def _tries_again(self, what: str, error: Exception, step: str = _COMMIT) -> None:
        if self.run.counters.errors.retried.met(step, error):
            log.warning("task %s: %s: %s", self.run.spec.id, what, error)

    def flush(self, offsets: Offsets, *, is_last: bool) -> FlushedOffsets | None:
        """Flush the records put below these offsets; None if dead letters are not safe yet."""
        if not self.are_dead_letters_safe(is_last=is_last):
            return None  # before the flush, in which a store that keeps its own offsets advances them
        begun_s = time.monotonic()
        try:
            allowed = self._allowed(offsets, self.task.pre_commit(dict(offsets)))
        except Exception as error:
            self.run.counters.commit_failed()
            if isinstance(error, RefusedReportError):
                self._refused(error, is_last=is_last)  # its record may be below what is committed already
            log.exception("task %s: pre_commit failed; nothing is committed", self.run.spec.id)
            if not is_last:
                self._tries_again("it continues from its last safe offsets", error, _FLUSH)
            return FlushedOffsets({}, {} if is_last else self._safe(offsets), begun_s)
        self.positions.restarted.difference_update(offsets)
        self.run.counters.errors.retried.passed(_FLUSH)
        rewinds = self.context.take_rewinds(offsets)
        allowed |= {place: min(offset, allowed[place]) for place, offset in rewinds.items() if place in allowed}
        return FlushedOffsets(allowed, rewinds, begun_s)

    def commit(self, flushed: FlushedOffsets, input_: SinkInput, *, is_last: bool) -> None:
        """Commit the allowed offsets that are not stored yet."""
        stored, other = self.positions.stored, self.positions.other
        due = {p: offset for p, offset in flushed.allowed.items() if stored.get(p) != offset or p in other}
        if not due:
            self.run.counters.errors.retried.passed(_COMMIT)
        if not due or not self.are_dead_letters_safe(is_last=is_last):
            return
        self.run.commit_begun(flushed.begun_s)
        try:
            committed = input_.commit(due)
        except ConnectError as error:
            self.run.counters.commit_failed()
            self.run.counters.dropped()
            self.run.tracing.commit_failed(error)
            self._tries_again("offsets are not committed; retrying at the next commit", error)
            return
        self.run.committed(time.monotonic())
        self.run.counters.errors.retried.passed(_COMMIT)
        self.positions.committed(committed)
        # Not for partitions that the task rewinds: it takes records again there that are not safe.
        self.positions.safe.update((p, offset) for p, offset in committed.items() if p not in flushed.rewinds)

    def close(self) -> None:
        """Wait for the last dead letters, including the one for a record that made the task fail."""
        self.are_dead_letters_safe(is_last=True)
        self.run.counters.dropped()
        self.run.tracing.dropped()

    def are_dead_letters_safe(self, *, is_last: bool) -> bool:
        """Wait for dead letters: no offset goes past an unsafe one. Raises the refusal of one, unless `is_last`."""
        if self.dead_letters is None:
            return True
        try:
            return self.dead_letters.settle(self.run.spec.commits.offset_flush_timeout_ms / 1000)
        except ConnectError as error:
            self._refused(error, is_last=is_last)
            log.exception("task %s: its dead letters are not safe; nothing is committed", self.run.spec.id)
            return False

    def _refused(self, error: ConnectError, *, is_last: bool) -> None:
        """Raise why a dead letter is refused; with `is_last`, keep it for `raise_refusal` if it is for good."""
        if not is_last:
            raise error
        if self.refusal is None and isinstance(error, FatalError):
            self.refusal = error

    def raise_refusal(self) -> None:
        """Raise once why a last commit has left out records whose dead letters can never be written, if it has."""
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise refusal

    def _safe(self, offsets: Offsets) -> Offsets:
        """Return the offsets from which records are put again after a failed flush.

        A task may have committed by itself, as one with transactions of its own does: what is below is never put again.
        Partitions stay where they are if nothing was taken: a log that was cut is read from before what is safe.
        """
        safe = {place: at for place, taken in offsets.items() if (at := self.positions.safe[place]) < taken}
        try:
            found = {} if self.context.reading is None else self.context.reading.stored(safe)
        except ConnectError as error:
            log.warning("task %s: the group's offsets cannot be read: %s", self.run.spec.id, error)
            return safe
        own = {place: offset for place, offset in found.items() if self.positions.stored.get(place) != offset}
        return {place: min(max(offset, own.get(place, 0)), offsets[place]) for place, offset in safe.items()}

    def _allowed(self, offsets: Offsets, answered: Offsets) -> dict[TopicPartition, int]:
        """Return the offsets that the task allows to be committed: none above those it was given, or that is gone."""
        allowed = {}
        for place, offset in answered.items():
            if place not in offsets:
                log.warning(
                    "task %s: ignoring %s from pre_commit: it is not assigned to the task", self.run.spec.id, place
                )
            elif offset > offsets[place]:
                log.warning(
                    "task %s: ignoring offset %s of %s from pre_commit: put has only taken records below %s",
                    self.run.spec.id, offset, place, offsets[place],
                )  # fmt: skip
            else:  # a task may answer an offset from before the log was reset
                allowed[place] = max(offset, min(self.positions.gone.get(place, 0), offsets[place]))
        return allowed
