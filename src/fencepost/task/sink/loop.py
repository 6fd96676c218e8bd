"""The loop of one sink task: read, convert, transform and put; flush and commit at intervals.

An offset is committed only when every record below it in its partition was put and flushed, or dropped as a tolerated
error, in this generation of the group (E13). Once a revocation has been granted, no record of that partition reaches
`put` (E14).
"""

import logging
import time
from collections.abc import Collection

from fencepost.api import RetriableError, SinkTask
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition, place_names
from fencepost.task.failure.dead_letter_producer import DeadLetters
from fencepost.task.failure.tolerance import StoppedInRetryError
from fencepost.task.sink.commits import SinkCommits
from fencepost.task.sink.context import SinkContext, SinkInput
from fencepost.task.sink.positions import SinkPositions
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.sink.puts import Puts
from fencepost.task.sink.reader import Offsets, ReaderStatus
from fencepost.task.start.counters import SinkCounters
from fencepost.task.start.run import TaskRun

log = logging.getLogger(__name__)

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
        self._puts = Puts(run, task, context, processor, self._positions)
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
        fetched = self._without_rewound(self._input.poll(self._wait_s(), self._puts.most_records))
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
        """Fetch records again later: those of a partition that was assigned while all others are paused."""
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

    def _without_rewound(self, fetched: Fetched) -> Fetched:
        """Rewind where the task asked to within the poll, as it released others; what was fetched there comes again."""
        begins = self._context.take_rewinds(self._positions.taken)
        self._go_back(begins)
        return fetched.without(begins) if begins else fetched

    def _go_back(self, offsets: Offsets) -> None:
        """Continue at these offsets. What was taken counts no more, even if the input cannot seek at once."""
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
        if self._run.spec.input.consumer_conf.get("auto.offset.reset") == "latest":
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
        """Close partitions; returns whether what was put of them may be committed."""
        try:
            self._puts.close(partitions)
        except RetriableError as error:
            self._run.counters.commit_failed()
            log.warning("task %s: nothing of what is released is committed: %s", self._run.spec.id, error)
            return False
        return True
