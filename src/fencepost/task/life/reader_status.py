"""Tasks that read as a member of a group, and what they report: paused or running, and how far they are behind."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition
from fencepost.task.channel.message import RunState
from fencepost.task.life.counters import SinkCounters
from fencepost.task.life.task_run import TaskRun

_MEASURE_S = 1.0

Offsets = Mapping[TopicPartition, int]


class GroupReader(Protocol):
    """Where records come from, such as `GroupInput`."""

    @property
    def assignment(self) -> frozenset[TopicPartition]: ...

    @property
    def metadata(self) -> Any: ...

    def poll(self, timeout_s: float, most: int) -> Fetched: ...

    def seek(self, offsets: Offsets) -> None: ...

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these partitions, and resume all others."""

    def known_ends(self) -> Offsets:
        """Return the ends of the assignment's logs as of the last fetch, without a request."""

    def close(self) -> None: ...


class ReaderStatus:
    """The status of one task instance. Used by the task's thread."""

    def __init__(self, run: TaskRun[SinkCounters]) -> None:
        self._run = run
        self.is_paused = False
        self._measure_due_s = 0.0

    def follow_pause(self, before_pause: Callable[[], None] = lambda: None) -> None:
        """Pause or resume as the worker wants, and report it."""
        if self.is_paused is not self._run.control.is_paused:
            self.is_paused = self._run.control.is_paused
            if self.is_paused:
                before_pause()
            self._run.report_state(RunState.PAUSED if self.is_paused else RunState.RUNNING)

    def measure(self, positions: Offsets, reader: GroupReader) -> None:
        """Count the partitions, and the lag of the one with the most, once a second."""
        if time.monotonic() >= self._measure_due_s:
            self._measure_due_s = time.monotonic() + _MEASURE_S
            self._run.counters.partition_count = len(positions)
            lags = [end - positions[place] for place, end in reader.known_ends().items() if place in positions]
            self._run.counters.lag_max = max(lags, default=0)
