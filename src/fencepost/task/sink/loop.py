"""The loop of one sink task: read, convert, transform and put; flush and commit at intervals.

An offset is committed only when every record below it in its partition was put and flushed, or dropped as a tolerated
error, in this generation of the group (E13). Once a revocation has been granted, no record of that partition reaches
`put` (E14).
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from fencepost.api import ConnectError, RetriableError, SinkTask
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import SinkBatch, TopicPartition
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.failure.back_off import pause_after
from fencepost.task.failure.tolerance import StoppedInRetryError
from fencepost.task.life.counters import SinkCounters
from fencepost.task.sink.context import Reading, SinkContext
from fencepost.task.sink.processing import SinkProcessor

log = logging.getLogger(__name__)

_MEASURE_S = 1.0
_LONGEST_POLL_S = 0.1  # a stop or a pause takes effect between polls
_PAUSES_S = (0.1, 0.3, 1.0, 3.0, 10.0)
_NOTHING = SinkBatch.of_records([])

Offsets = Mapping[TopicPartition, int]


class SinkInput(Reading, Protocol):
    """Where records come from and positions are kept, such as `GroupInput`."""

    def poll(self, timeout_s: float, most: int) -> Fetched: ...

    def seek(self, offsets: Offsets) -> None: ...

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these partitions, and resume all others."""

    def commit(self, offsets: Offsets) -> Offsets: ...

    def known_ends(self) -> Offsets:
        """Return the ends of the assignment's logs as of the last fetch, without a request."""

    def close(self) -> None: ...


class Letters(Protocol):
    """Where records go that could not be processed: `DeadLetters`."""

    def settle(self, timeout_s: float) -> bool: ...


class SinkLoop:
    """Runs one task instance. It is the group member's listener for assignments."""

    def __init__(
        self,
        spec: TaskSpec,
        task: SinkTask,
        context: SinkContext,
        processor: SinkProcessor,
        control: Control,
        counters: SinkCounters,
        report_state: Callable[[RunState], None],
        letters: Letters | None = None,
    ) -> None:
        self._spec = spec
        self._task = task
        self._context = context
        self._processor = processor
        self._control = control
        self._counters = counters
        self._report_state = report_state
        self._letters = letters
        self._taken: dict[TopicPartition, int] = {}  # the next offset for put, of each partition
        self._safe: dict[TopicPartition, int] = {}  # from where records are put again if a flush fails
        self._stored: dict[TopicPartition, int] = {}  # the group's offsets; without partitions that have none
        self._fresh: dict[TopicPartition, int] = {}  # ends of logs where the group begins, not committed yet
        self._held: tuple[SinkBatch, dict[TopicPartition, int]] | None = None  # refused for now, with its next offsets
        self._refusals = 0
        self._retry_s = 0.0  # when the held batch is put again
        self._is_paused = False
        self.is_abandoned = False
        """Whether the task may already run elsewhere: nothing more is flushed or committed."""
        self._commit_due_s = time.monotonic() + spec.commits.offset_flush_interval_ms / 1000
        self._measure_due_s = 0.0
        self._idle_due_s = 0.0  # when put is called even without records

    def run(self, input_: SinkInput) -> None:
        """Move data until asked to stop. Errors of task, conversion and Kafka propagate after a last commit."""
        self._input = self._context.reading = input_
        try:
            while not self._control.is_stopping:
                self._turn()
        except StoppedInRetryError as error:
            log.info("task %s stops before the batch that it was processing is put: %s", self._spec.id, error)
        finally:
            self._give_up(frozenset(self._taken), is_lost=False)
            self._are_dead_letters_safe(is_last=True)  # including that of a record that made the task fail
            self._counters.dropped()

    def _turn(self) -> None:
        if self._context.is_commit_requested or time.monotonic() >= self._commit_due_s:
            self._commit_all()
        self._rewind()
        if time.monotonic() >= self._measure_due_s:
            self._measure()
        self._follow_pause()
        if self._held is not None and time.monotonic() >= self._retry_s and not self._control.is_paused:
            self._put(*self._held)
        self._halt_what_is_not_wanted()
        fetched = self._input.poll(self._wait_s(), self._spec.input.most_records)
        if not self._has_begun() or self._is_halted:
            self._put_back(fetched)
        elif len(fetched):
            self._take(fetched)
        else:
            self._reach(fetched.ends)
            self._put_nothing()

    def _has_begun(self) -> bool:
        """Commit the ends of logs at which the group begins, and say whether it has them all.

        Nothing is put before that: a successor would begin at a later end, and skip the records in between.
        """
        if not self._fresh:
            return True
        try:
            self._stored.update(self._input.commit(dict(self._fresh)))
        except ConnectError as error:
            self._counters.commit_failed()
            log.warning("task %s: its starting offsets are not committed yet; retrying: %s", self._spec.id, error)
            return False
        self._fresh.clear()
        return True

    def _measure(self) -> None:
        self._measure_due_s = time.monotonic() + _MEASURE_S
        self._counters.partition_count = len(self._taken)
        lags = [end - self._taken[place] for place, end in self._input.known_ends().items() if place in self._taken]
        self._counters.lag_max = max(lags, default=0)

    def _wait_s(self) -> float:
        due_s = self._commit_due_s
        if self._held is not None and not self._control.is_paused:
            due_s = min(due_s, self._retry_s)
        elif self._taken and not self._is_halted:
            due_s = min(due_s, self._idle_due_s)
        return min(max(due_s - time.monotonic(), 0.001), _LONGEST_POLL_S)

    @property
    def _is_halted(self) -> bool:
        """Say whether nothing may be put, except for a held batch."""
        return self._is_paused or self._held is not None

    def _put_back(self, fetched: Fetched) -> None:
        """Fetch records again later: those of a partition that was assigned while all others are paused."""
        if len(fetched):
            self._input.seek(fetched.first_offsets())

    def _take(self, fetched: Fetched) -> None:
        covered = fetched.next_offsets()  # including records that are dropped on the way
        batch = self._processor.process(fetched)
        started = time.monotonic()
        self._put(batch, covered | {p: max(end, covered.get(p, 0)) for p, end in fetched.ends.items()})
        self._counters.polled(len(fetched), time.monotonic() - started)

    def _reach(self, ends: Offsets) -> None:
        """Count invisible records as taken: else a topic of transactions would always seem to have one record left."""
        self._taken.update((p, end) for p, end in ends.items() if p in self._taken and end > self._taken[p])

    def _put_nothing(self) -> None:
        """Call put without records after the flush interval, or the time that the task asked for."""
        if self._taken and time.monotonic() >= self._idle_due_s:
            self._put(_NOTHING, {})

    def _put(self, batch: SinkBatch, covered: dict[TopicPartition, int]) -> None:
        self._held = None
        try:
            if len(batch) or not covered:
                self._task.put(batch)
                self._idle_due_s = time.monotonic() + self._idle_s()
        except RetriableError as error:
            self._hold(batch, covered, error)
        else:
            self._refusals = 0
            self._taken.update((place, offset) for place, offset in covered.items() if place in self._taken)
            self._counters.records_written += len(batch)
            self._counters.topics.update(place.topic for place in covered if len(batch))
        self._rewind()

    def _idle_s(self) -> float:
        longest_s = self._spec.commits.offset_flush_interval_ms / 1000
        asked_s = self._context.take_timeout_s()
        return longest_s if asked_s is None else min(asked_s, longest_s)

    def _hold(self, batch: SinkBatch, covered: dict[TopicPartition, int], error: Exception) -> None:
        asked_s = self._context.take_timeout_s()
        pause_s = pause_after(self._refusals, _PAUSES_S) if asked_s is None else asked_s
        log.warning("task %s: put failed and will be retried in %g s: %s", self._spec.id, pause_s, error)
        self._refusals += 1
        self._counters.errors.retries += 1
        self._held, self._retry_s = (batch, covered), time.monotonic() + pause_s

    def _rewind(self) -> None:
        """Continue where the task asked to; held records from there are read again."""
        self._go_back(self._context.take_rewinds(self._taken))
        self._context.rewinds.clear()  # those of partitions that are not assigned

    def _go_back(self, offsets: Offsets) -> None:
        """Continue at these offsets. What was taken counts no more, even if the input cannot seek at once."""
        if offsets:
            self._taken.update(offsets)
            self._safe.update(offsets)
            self._drop_held(frozenset(offsets))
            self._input.seek(offsets)

    def _drop_held(self, places: frozenset[TopicPartition]) -> None:
        if self._held is not None:
            batch, covered = self._held
            left = {place: offset for place, offset in covered.items() if place not in places}
            self._held = (batch.without(places), left) if left else None

    # pausing

    def _follow_pause(self) -> None:
        if self._is_paused is not self._control.is_paused:
            self._is_paused = self._control.is_paused
            self._report_state(RunState.PAUSED if self._is_paused else RunState.RUNNING)

    def _halt_what_is_not_wanted(self) -> None:
        """Pause all partitions while a batch is held or the task is paused, else those that the task paused.

        The task stays a member of the group.
        """
        self._input.pause(self._input.assignment if self._is_halted else self._context.paused)

    # commits

    def _commit_all(self) -> None:
        self._context.is_commit_requested = False
        self._commit_due_s = time.monotonic() + self._spec.commits.offset_flush_interval_ms / 1000
        if self._taken:
            self._commit(dict(self._taken), is_last=False)

    def _commit(self, offsets: dict[TopicPartition, int], *, is_last: bool) -> None:
        if not self._are_dead_letters_safe(is_last=is_last):
            return  # before the flush, in which a store that keeps its own offsets advances them
        started = time.monotonic()
        try:
            allowed = self._allowed(offsets, self._task.pre_commit(dict(offsets)))
        except Exception as error:
            self._counters.commit_failed()
            log.exception("task %s: pre_commit failed; nothing is committed", self._spec.id)
            if not is_last:
                log.warning("task %s continues from its last safe offsets: %s", self._spec.id, error)
                self._go_back({place: self._safe[place] for place in offsets})
            return
        rewinds = self._context.take_rewinds(offsets)
        allowed |= {place: min(offset, allowed[place]) for place, offset in rewinds.items() if place in allowed}
        if not is_last:
            self._go_back(rewinds)
        due = {place: offset for place, offset in allowed.items() if self._stored.get(place) != offset}
        if not due or not self._are_dead_letters_safe(is_last=is_last):
            return
        self._counters.commit_begun(started)
        try:
            committed = self._input.commit(due)
        except ConnectError as error:
            self._counters.commit_failed()
            self._counters.dropped()
            log.warning("task %s: offsets are not committed; retrying at the next commit: %s", self._spec.id, error)
            return
        self._counters.committed(time.monotonic())
        self._stored.update(committed)
        # Not for partitions that the task rewinds: it takes records again there that are not safe.
        self._safe.update((place, offset) for place, offset in committed.items() if place not in rewinds)

    def _are_dead_letters_safe(self, *, is_last: bool) -> bool:
        """Wait for dead letters: no offset goes past an unsafe one. Raises the refusal of one, unless `is_last`."""
        if self._letters is None:
            return True
        try:
            return self._letters.settle(self._spec.commits.offset_flush_timeout_ms / 1000)
        except ConnectError:
            if not is_last:
                raise
            log.exception("task %s: its dead letters are not safe; nothing is committed", self._spec.id)
            return False

    def _allowed(self, offsets: Offsets, answered: Offsets) -> dict[TopicPartition, int]:
        """Return the offsets that the task allows to be committed, never above those it was given."""
        allowed = {}
        for place, offset in answered.items():
            if place not in offsets:
                log.warning(
                    "task %s: ignoring %s from pre_commit: it is not assigned to the task", self._spec.id, place
                )
            elif offset > offsets[place]:
                log.warning(
                    "task %s: ignoring offset %s of %s from pre_commit: put has only taken records below %s",
                    self._spec.id, offset, place, offsets[place],
                )  # fmt: skip
            else:
                allowed[place] = offset
        return allowed

    # the group's assignment

    def assigned(self, positions: Offsets, fresh: Collection[TopicPartition]) -> Offsets:
        """Open partitions; returns where the task wants to begin if it is not at the group's offsets."""
        self._taken.update(positions)
        self._safe.update(positions)
        # Offsets that the group lacks are committed even without records: else the next member would reset again.
        self._stored.update((place, offset) for place, offset in positions.items() if place not in fresh)
        if positions:
            self._task.open(sorted(positions))
            self._idle_due_s = 0.0  # soon: a task that does not expect an empty batch should fail at once
        begins = self._context.take_rewinds(positions)
        self._taken.update(begins)
        self._safe.update(begins)
        if self._spec.input.consumer_conf.get("auto.offset.reset") == "latest":
            self._fresh.update((place, self._taken[place]) for place in fresh)
        return begins

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit and close partitions before another member gets them."""
        self._give_up(frozenset(partitions), is_lost=False)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Close partitions without a commit, which would be refused."""
        self._give_up(frozenset(partitions), is_lost=True)

    def _give_up(self, partitions: frozenset[TopicPartition], *, is_lost: bool) -> None:
        partitions &= frozenset(self._taken)
        if not partitions:
            return
        try:
            if is_lost or self.is_abandoned:
                log.warning("task %s has lost %s to other members", self._spec.id, _named(partitions))
            else:
                self._commit({place: self._taken[place] for place in partitions}, is_last=True)
            self._task.close(sorted(partitions))
        finally:
            for place in partitions:
                del self._taken[place]
                del self._safe[place]
                self._stored.pop(place, None)
                self._fresh.pop(place, None)
            self._context.take_rewinds(partitions)
            self._context.paused -= partitions
            self._drop_held(partitions)


def _named(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))
