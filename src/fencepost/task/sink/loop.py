"""The loop of one sink task: read, convert, transform and put; flush and commit at intervals.

An offset is committed only when every record below it in its partition was put and flushed, or dropped as a tolerated
error, in this generation of the group (E13). Once a revocation has been granted, no record of that partition reaches
`put` (E14). A batch that `put` has refused for now is kept.
"""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.api import RetriableError, SinkTask
from fencepost.hook.hosted_task import HostedSink, Progress, Put
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import SinkBatch, TopicPartition, place_names
from fencepost.task.failure.dead_letter_producer import DeadLetters
from fencepost.task.failure.tolerance import StoppedInRetryError
from fencepost.task.sink.commits import SinkCommits, SinkPositions
from fencepost.task.sink.context import SinkContext, SinkInput
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.sink.reader import BatchSize, Offsets, ReaderStatus
from fencepost.task.start.run import SinkCounters, TaskRun

log = logging.getLogger(__name__)

_PUT = "put"
_NOTHING = SinkBatch.of_records([])


class _Held(NamedTuple):
    """A batch that is put again at `retry_s`, with its next offsets."""

    batch: SinkBatch
    covered: Offsets
    retry_s: float


@dataclass
class Puts:
    """Puts the records of one task instance, and opens and closes its partitions.

    At `idle_due_s` put is called even without records: after the flush interval, or the time that the task asked for.
    `held` was refused for now. What was put, or dropped on the way, counts as taken in `positions`.
    """

    run: TaskRun[SinkCounters]
    task: SinkTask
    context: SinkContext
    processor: SinkProcessor
    positions: SinkPositions
    batches: BatchSize
    idle_due_s: float = 0.0
    held: _Held | None = None

    @property
    def most_records(self) -> int:
        """Return how many records the next `take` may be given."""
        if isinstance(self.task, HostedSink):
            return self.task.batches * self.task.context.most_records
        return self.batches.records

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.task.open(sorted(partitions))
        self.idle_due_s = 0.0  # soon: a task that does not expect an empty batch should fail at once

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self.task.close(sorted(partitions))

    def take(self, fetched: Fetched) -> Offsets:
        """Convert and put records. Returns the offsets of the records that were left, to be read again."""
        with self.run.tracing.processing(fetched):
            started = time.monotonic()
            left = self._taken(fetched)
            if self.held is None:
                self.batches.took(len(fetched), time.monotonic() - started)
            return left

    def _taken(self, fetched: Fetched) -> Offsets:
        covered = fetched.next_offsets()
        self.positions.begin_below(fetched.first_offsets())
        with self.run.tracing.step("convert"):
            batch = self.processor.process(fetched)
        started = time.monotonic()
        with self.run.tracing.step("put"):
            left = self._put(batch, covered | {p: max(end, covered.get(p, 0)) for p, end in fetched.ends.items()})
        took_s = time.monotonic() - started
        if isinstance(self.task, HostedSink) and len(batch):
            progress = self.task.progress
            for put in progress.puts:
                self.run.counters.polled(put.rows, put.took_s)
            if progress.refused is not None:
                put_s = sum(put.took_s for put in progress.puts)
                self.run.counters.polled(len(progress.refused), took_s - put_s)
        else:
            self.run.counters.polled(len(fetched), took_s)
        return left

    def take_held(self) -> Offsets:
        """Put the refused batch again if it is time. Returns the offsets of the records that were left."""
        if self.held is None or time.monotonic() < self.held.retry_s:
            return {}
        with self.run.tracing.putting_again():
            return self._put(self.held.batch, self.held.covered)

    def take_nothing(self) -> None:
        """Call put without records if it is time."""
        if time.monotonic() >= self.idle_due_s:
            self._put(_NOTHING, {})

    def drop(self, places: frozenset[TopicPartition]) -> None:
        """Drop the refused records of these partitions (E14)."""
        if self.held is not None:
            batch, covered, retry_s = self.held
            left = {place: offset for place, offset in covered.items() if place not in places}
            self.held = _Held(batch.without(places), left, retry_s) if left else None

    def _put(self, batch: SinkBatch, covered: Offsets) -> Offsets:
        self.held = None
        if not len(batch) and covered:  # all were dropped
            self._take(batch, Progress(), covered)
            return {}
        progress, error = self._called(batch)
        self._take(batch, progress, covered)
        if error is None:
            self._accepted()
            self.idle_due_s = time.monotonic() + self._idle_s()
            return _first_offsets(batch, progress.rows)
        if not isinstance(error, RetriableError) or progress.refused is None:
            raise error
        left = _first_offsets(batch, progress.rows + len(progress.refused))
        self._hold(progress.refused, _up_to(left, covered), error)
        return left

    def _called(self, batch: SinkBatch) -> tuple[Progress, Exception | None]:
        error, progress = None, Progress([Put(len(batch))])
        try:
            self.task.put(batch)
        except Exception as raised:
            error, progress = raised, Progress(refused=batch)
        return self.task.progress if isinstance(self.task, HostedSink) else progress, error

    def _take(self, batch: SinkBatch, progress: Progress, covered: Offsets) -> None:
        if progress.puts:
            self._accepted()
        if progress.puts or not len(batch):
            taken = _up_to(_first_offsets(batch, progress.rows), covered)
            self.positions.take(taken)
            self.run.counters.topics.update(place.topic for place in taken if len(batch))
        self.run.counters.records_written += progress.rows - sum(put.removed for put in progress.puts)

    def _accepted(self) -> None:
        self.batches.accepted()
        self.run.counters.errors.retried.passed(_PUT)

    def _idle_s(self) -> float:
        longest_s = self.run.spec.commits.offset_flush_interval_ms / 1000
        asked_s = self.context.take_timeout_s()
        return longest_s if asked_s is None else min(asked_s, longest_s)

    def _hold(self, batch: SinkBatch, covered: Offsets, error: Exception) -> None:
        asked_s, own_s = self.context.take_timeout_s(), self.batches.refused()
        pause_s = own_s if asked_s is None else asked_s
        if self.run.counters.errors.retried.met(_PUT, error):
            log.warning("task %s: put failed and will be retried in %g s: %s", self.run.spec.id, pause_s, error)
        self.run.counters.errors.retries += 1
        self.run.tracing.refused(error)
        self.held = _Held(batch, covered, time.monotonic() + pause_s)


def _first_offsets(batch: SinkBatch, start: int) -> Offsets:
    """Return for each partition the offset of its first record from row `start` on."""
    if start >= len(batch):
        return {}
    return dict(zip(reversed(batch.places[start:]), reversed(batch.offsets[start:]), strict=True))


def _up_to(left: Offsets, covered: Offsets) -> dict[TopicPartition, int]:
    """Return how far each partition is if the records from `left` on are not taken."""
    return {place: left.get(place, end) for place, end in covered.items()}


LONGEST_POLL_S = 0.1  # a stop or a pause takes effect between polls


class SinkLoop:
    """Runs one task instance. It is the group member's listener for assignments."""

    def __init__(
        self,
        run: TaskRun[SinkCounters],
        task: SinkTask,
        context: SinkContext,
        processor: SinkProcessor,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        self._run = run
        self._context = context
        self._positions = SinkPositions()
        self._puts = Puts(
            run, task, context, processor, self._positions, BatchSize(run.spec.input.most_records or task.most_records)
        )
        self._commits = SinkCommits(run, task, context, self._positions, dead_letters)
        self._status = ReaderStatus(run)
        self.is_abandoned = False
        """Whether the task may already run elsewhere: nothing more is flushed or committed."""

    @property
    def next_offsets(self) -> Offsets:
        """Return the next offset for `put` of each partition of the assignment, as of when this is read."""
        return self._positions.taken

    def run(self, input_: SinkInput) -> None:
        """Move data until asked to stop. Errors of task, conversion and Kafka propagate after a last commit.

        So does the refusal of a dead letter that only the last commit has found out.
        """
        self._input = self._context.reading = input_
        try:
            while not self._run.control.is_stopping:
                self._run.control.move()
                self._turn()
        except StoppedInRetryError as error:
            log.info("task %s stops before the batch that it was processing is put: %s", self._run.spec.id, error)
        finally:
            self._release(frozenset(self._positions.taken), is_lost=False)
            self._commits.close()
        self._commits.raise_refusal()

    def _turn(self) -> None:
        if self._commits.is_due:
            self._commit_all()
        self._rewind()
        self._status.measure(self._positions.taken, self._input)
        self._status.follow_pause()
        if self._puts.held is not None and not self._run.control.is_paused:
            self._advance(self._puts.take_held())
        # A paused task stays a member of the group.
        self._input.pause(self._input.assignment if self._is_halted else self._context.paused)
        fetched = self._input.poll(self._wait_s(), self._puts.most_records)
        self._follow_restarts()
        fetched = self._without_rewound(fetched)
        if not self._commits.has_begun(self._input) or self._is_halted:
            self._put_back(fetched)
        elif len(fetched):
            self._advance(self._puts.take(fetched))
        else:
            self._positions.reach(fetched.ends)
            if self._positions.taken:
                self._puts.take_nothing()
                self._rewind()

    def _wait_s(self) -> float:
        due_s, held = self._commits.due_s, self._puts.held
        if held is not None and not self._run.control.is_paused:
            due_s = min(due_s, held.retry_s)
        elif self._positions.taken and not self._is_halted:
            due_s = min(due_s, self._puts.idle_due_s)
        return min(max(due_s - time.monotonic(), 0.001), LONGEST_POLL_S)

    @property
    def _is_halted(self) -> bool:
        """Say whether nothing may be put, except for a refused batch: all partitions are paused."""
        return self._status.is_paused or self._puts.held is not None

    def _put_back(self, fetched: Fetched) -> None:
        """Fetch the records of a partition again later: it was assigned while all others are paused."""
        if len(fetched):
            self._input.seek(fetched.first_offsets())

    def _advance(self, left: Offsets) -> None:
        """Go on after a put: first to records that it has left, then to where the task asked to go."""
        if left:
            self._input.seek(left)
        self._run.counters.active.become(self._positions.uncommitted)
        self._rewind()

    def _rewind(self) -> None:
        """Continue where the task asked to; held records from there are read again."""
        self._go_back(self._context.take_rewinds(self._positions.taken))
        self._context.rewinds.clear()  # those of partitions that are not assigned

    def _follow_restarts(self) -> None:
        """Go on where the input does, unless the task asks for something else."""
        if restarts := self._input.starts.restarts:
            self._positions.restart(restarts, is_latest=self._run.spec.input.begins_at_the_end)
            self._context.is_commit_requested |= bool(self._positions.restarted)
            self._context.resets.update(place for place, each in restarts.items() if not each.is_cut)
            restarts.clear()

    def _without_rewound(self, fetched: Fetched) -> Fetched:
        """Rewind partitions as the task asked within the poll, when it released others, and leave out their records."""
        begins = self._context.take_rewinds(self._positions.taken)
        self._go_back(begins)
        return fetched.without(begins) if begins else fetched

    def _go_back(self, offsets: Offsets) -> None:
        """Continue at these offsets. Later records count as not taken, even if the input cannot seek at once."""
        if offsets:
            self._positions.go_back(offsets)
            self._puts.drop(frozenset(offsets))
            self._input.seek(offsets)

    def _commit_all(self) -> None:
        self._commits.schedule()
        if not self._positions.taken:
            return
        flushed = self._commits.flush(dict(self._positions.taken), is_last=False)
        if flushed is not None:
            self._go_back(flushed.rewinds)
            self._commits.commit(flushed, self._input, is_last=False)
        self._run.counters.active.become(self._positions.uncommitted)

    # the group's assignment

    def assigned(self, positions: Offsets, fresh: Collection[TopicPartition]) -> Offsets:
        """Open partitions; returns where the task wants to begin if it is not at the group's offsets."""
        self._positions.begin(positions, fresh)
        if positions:
            self._puts.open(positions)
        begins = self._context.take_rewinds(positions)
        self._positions.go_back(begins)
        if self._run.spec.input.begins_at_the_end:
            self._positions.fresh.update((place, self._positions.taken[place]) for place in fresh)
        return begins

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit and close partitions before another member gets them.

        Raises the refusal of a dead letter: its record may be one that no other member gets.
        """
        self._release(frozenset(partitions), is_lost=False)
        self._commits.raise_refusal()

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Close partitions without a commit, which would be refused."""
        self._release(frozenset(partitions), is_lost=True)

    def _release(self, partitions: frozenset[TopicPartition], *, is_lost: bool) -> None:
        partitions &= frozenset(self._positions.taken)
        if not partitions:
            return
        self._follow_restarts()
        try:
            if is_lost or self.is_abandoned:
                log.warning("task %s has lost %s to other members", self._run.spec.id, place_names(partitions))
                self._close(partitions)
            else:
                self._commit_last(partitions)
        finally:
            self._positions.forget(partitions)
            self._context.take_rewinds(partitions)
            self._context.paused -= partitions
            self._puts.drop(partitions)

    def _commit_last(self, partitions: frozenset[TopicPartition]) -> None:
        """Flush, close, and only then commit, as Kafka Connect does: the task may report records while it closes."""
        flushed = self._commits.flush({place: self._positions.taken[place] for place in partitions}, is_last=True)
        if self._close(partitions) and flushed is not None:
            self._commits.commit(flushed, self._input, is_last=True)

    def _close(self, partitions: frozenset[TopicPartition]) -> bool:
        """Close partitions. Returns whether the records put may be committed."""
        try:
            self._puts.close(partitions)
        except RetriableError as error:
            self._run.counters.commit_failed()
            log.warning("task %s: nothing of what is released is committed: %s", self._run.spec.id, error)
            return False
        return True
