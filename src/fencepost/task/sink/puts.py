"""Calls of `put`, and the batch that it has refused for now."""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.api import RetriableError, SinkTask
from fencepost.hook.hosted_task import HostedSink, Progress, Put
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import SinkBatch, TopicPartition
from fencepost.task.failure.retry import pause_after
from fencepost.task.sink.context import SinkContext
from fencepost.task.sink.positions import SinkPositions
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.sink.reader import Offsets
from fencepost.task.start.counters import SinkCounters
from fencepost.task.start.run import TaskRun

log = logging.getLogger(__name__)

_PAUSES_S = (0.1, 0.3, 1.0, 3.0, 10.0)
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
    idle_due_s: float = 0.0
    held: _Held | None = None
    _refusals: int = 0  # in a row

    @property
    def most_records(self) -> int:
        """Return how many records the next `take` may be given."""
        batches = self.task.batches if isinstance(self.task, HostedSink) else 1
        return batches * self.run.spec.input.most_records

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.task.open(sorted(partitions))
        self.idle_due_s = 0.0  # soon: a task that does not expect an empty batch should fail at once

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self.task.close(sorted(partitions))

    def take(self, fetched: Fetched) -> Offsets:
        """Convert and put records; returns the offsets of those that were left, which are to be read again."""
        with self.run.tracing.processing(fetched):
            return self._taken(fetched)

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
        """Put the refused batch again if it is time; returns the offsets of what was left of it."""
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
        self._refusals = 0
        self.run.counters.errors.retried.passed(_PUT)

    def _idle_s(self) -> float:
        longest_s = self.run.spec.commits.offset_flush_interval_ms / 1000
        asked_s = self.context.take_timeout_s()
        return longest_s if asked_s is None else min(asked_s, longest_s)

    def _hold(self, batch: SinkBatch, covered: Offsets, error: Exception) -> None:
        asked_s = self.context.take_timeout_s()
        pause_s = pause_after(self._refusals, _PAUSES_S) if asked_s is None else asked_s
        if self.run.counters.errors.retried.met(_PUT, error):
            log.warning("task %s: put failed and will be retried in %g s: %s", self.run.spec.id, pause_s, error)
        self._refusals += 1
        self.run.counters.errors.retries += 1
        self.run.tracing.refused(error)
        self.held = _Held(batch, covered, time.monotonic() + pause_s)


def _first_offsets(batch: SinkBatch, start: int) -> Offsets:
    """Return the offset of the first record of each partition, of those from row `start` on."""
    if start >= len(batch):
        return {}
    return dict(zip(reversed(batch.places[start:]), reversed(batch.offsets[start:]), strict=True))


def _up_to(left: Offsets, covered: Offsets) -> dict[TopicPartition, int]:
    """Return how far each partition is if the records from `left` on are not taken."""
    return {place: left.get(place, end) for place, end in covered.items()}
