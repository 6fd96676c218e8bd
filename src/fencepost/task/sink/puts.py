"""Calls of `put`, and the batch that it has refused for now."""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.api import RetriableError, SinkTask
from fencepost.api.hosted_task import HostedSink
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import SinkBatch, TopicPartition
from fencepost.task.failure.back_off import pause_after
from fencepost.task.life.counters import SinkCounters
from fencepost.task.life.reader_status import Offsets
from fencepost.task.life.task_run import TaskRun
from fencepost.task.sink.context import SinkContext
from fencepost.task.sink.processing import SinkProcessor

log = logging.getLogger(__name__)

_PAUSES_S = (0.1, 0.3, 1.0, 3.0, 10.0)
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
    `held` was refused for now.
    """

    run: TaskRun[SinkCounters]
    task: SinkTask
    context: SinkContext
    processor: SinkProcessor
    idle_due_s: float = 0.0
    held: _Held | None = None
    _refusals: int = 0  # in a row

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.task.open(sorted(partitions))
        self.idle_due_s = 0.0  # soon: a task that does not expect an empty batch should fail at once

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self.task.close(sorted(partitions))

    def take(self, fetched: Fetched) -> Offsets:
        """Convert and put records; returns the offsets below which they are taken, or dropped on the way."""
        covered = fetched.next_offsets()
        batch = self.processor.process(fetched)
        started = time.monotonic()
        taken = self._put(batch, covered | {p: max(end, covered.get(p, 0)) for p, end in fetched.ends.items()})
        self.run.counters.polled(len(fetched), time.monotonic() - started)
        return taken

    def take_held(self) -> Offsets:
        """Put the refused batch again if it is time; returns the offsets below which records are taken now."""
        if self.held is None or time.monotonic() < self.held.retry_s:
            return {}
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
        try:
            if len(batch) or not covered:
                self.task.put(batch)
                self.idle_due_s = time.monotonic() + self._idle_s()
        except RetriableError as error:
            self._hold(batch, covered, error)
            return {}
        self._refusals = 0
        removed = self.task.removed if isinstance(self.task, HostedSink) and len(batch) else 0
        self.run.counters.records_written += len(batch) - removed
        self.run.counters.topics.update(place.topic for place in covered if len(batch))
        return covered

    def _idle_s(self) -> float:
        longest_s = self.run.spec.commits.offset_flush_interval_ms / 1000
        asked_s = self.context.take_timeout_s()
        return longest_s if asked_s is None else min(asked_s, longest_s)

    def _hold(self, batch: SinkBatch, covered: Offsets, error: Exception) -> None:
        asked_s = self.context.take_timeout_s()
        pause_s = pause_after(self._refusals, _PAUSES_S) if asked_s is None else asked_s
        log.warning("task %s: put failed and will be retried in %g s: %s", self.run.spec.id, pause_s, error)
        self._refusals += 1
        self.run.counters.errors.retries += 1
        self.held = _Held(batch, covered, time.monotonic() + pause_s)
