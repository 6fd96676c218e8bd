"""Finds the task to blame when the process of a slot dies with all its tasks, from lack of memory or a native crash.

The culprit cannot be observed, only which tasks were in the process, and which had made progress since their start. A
task that has committed something, or has lived for a minute, is not suspected. So if a slot is killed from outside, no
task that does its work is blamed. The other tasks are suspects, and start again after a pause. After its second crash
in a row, a suspect gets a slot of its own, until it makes progress or has lived for a minute. The only suspect of a
third or later crash is the culprit. If a process dies without any suspect in it, earlier suspects that had died
together with its tasks are cleared: one of these tasks makes progress and still kills the process.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fencepost.cluster.running import Start
from fencepost.task.channel.message import RunState
from fencepost.task.failure.tolerance import pause_after
from fencepost.worker.supervision.task.handle import HandleState, TaskHandle

TRIAL_S = 60.0
"""A start that has lived this long is not suspected."""

_MOST_TOGETHER = 2
_PAUSES_S = (0.0, 0.0, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class EndedStart:
    """A start that ended with its slot's process. `is_at_work`: it was not paused, and had not committed anything."""

    start: Start
    lived_s: float
    is_at_work: bool

    @property
    def is_suspect(self) -> bool:
        return self.is_at_work and self.lived_s < TRIAL_S


@dataclass(frozen=True)
class Outcome:
    """The outcome of a crash for one start. `crashes` counts its crashes in a row with this one; 0: not suspected."""

    crashes: int = 0
    is_culprit: bool = False

    @property
    def delay_s(self) -> float:
        """Return the pause before the next start."""
        return pause_after(self.crashes, _PAUSES_S)


def outcomes_of(crashes: Mapping[Start, int], ended_starts: Iterable[EndedStart]) -> dict[Start, Outcome]:
    """Return the outcome for each start that ended with a process. `crashes` counts earlier crashes in a row. Pure."""
    ended_starts = list(ended_starts)
    is_alone = sum(ended.is_suspect for ended in ended_starts) == 1
    outcomes: dict[Start, Outcome] = {}
    for ended in ended_starts:
        count = crashes.get(ended.start, 0) + 1 if ended.is_suspect else 0
        outcomes[ended.start] = Outcome(count, is_culprit=is_alone and count > _MOST_TOGETHER)
    return outcomes


class Suspicions:
    """How often each start's process died in a row. Used by the supervisor's thread.

    A start is a task and its generation: with another config, counting begins at 0.
    """

    def __init__(self) -> None:
        self._crashes: dict[Start, int] = {}
        self._died_with: dict[Start, frozenset[Start]] = {}  # in the last crash

    def crashed(self, ended_starts: Iterable[EndedStart]) -> dict[Start, Outcome]:
        """Count a crash of the process that ran these starts. Returns the outcome for each."""
        ended_starts = list(ended_starts)
        together = frozenset(ended.start for ended in ended_starts)
        outcomes = outcomes_of(self._crashes, ended_starts)
        if not any(ended.is_suspect for ended in ended_starts):
            for start in [s for s, others in self._died_with.items() if others & together]:
                self.clear(start)
        for start, outcome in outcomes.items():
            if outcome.crashes:
                self._crashes[start] = outcome.crashes
                self._died_with[start] = together - {start}
            else:
                self.clear(start)
        return outcomes

    def runs_alone(self, start: Start) -> bool:
        """Say whether the next start is to have a slot of its own."""
        return self._crashes.get(start, 0) >= _MOST_TOGETHER

    def is_suspect(self, start: Start) -> bool:
        return start in self._crashes

    def clear(self, start: Start) -> None:
        """Stop suspecting a start, because it makes progress, or a user has restarted it."""
        self._crashes.pop(start, None)
        self._died_with.pop(start, None)

    def keep_only(self, starts: Iterable[Start]) -> None:
        """Forget starts of generations that are over."""
        if self._crashes:
            kept = set(starts)
            for start in [start for start in self._crashes if start not in kept]:
                self.clear(start)


class Trials:
    """Used by the supervisor's thread."""

    def __init__(self) -> None:
        self._suspicions = Suspicions()

    def crashed(self, handles: Iterable[TaskHandle]) -> list[tuple[TaskHandle, Outcome]]:
        """Count a crash of the process that ran these starts, and delay their next starts. Returns the outcomes."""
        there = {handle.start: handle for handle in handles}
        outcomes = self._suspicions.crashed([_ended_start(handle) for handle in there.values()])
        for start, outcome in outcomes.items():
            there[start].again.at = time.monotonic() + outcome.delay_s
        return [(there[start], outcome) for start, outcome in outcomes.items()]

    def runs_alone(self, handle: TaskHandle, all_handles: Iterable[TaskHandle]) -> bool:
        """Say whether a start is to have a slot of its own.

        If there is no room for another slot for some time, the start shares one, but never with another suspect: the
        culprit among two suspects could never be found.
        """
        if not self._suspicions.runs_alone(handle.start):
            return False
        waits_s = time.monotonic() - handle.times.prepared
        return waits_s < TRIAL_S or any(
            other.state is HandleState.HOSTED and self._suspicions.is_suspect(other.start) for other in all_handles
        )

    def clear(self, handle: TaskHandle) -> None:
        """Stop suspecting a start, because a user has restarted it."""
        self._suspicions.clear(handle.start)

    def look(self, handles: Collection[TaskHandle], now: float) -> None:
        """Clear the starts that have lived long enough or make progress, and forget those that are over."""
        self._suspicions.keep_only(handle.start for handle in handles)
        for handle in handles:
            if handle.state is HandleState.HOSTED and (now - handle.times.hosted > TRIAL_S or _has_committed(handle)):
                self._suspicions.clear(handle.start)


def blame(handle: TaskHandle, outcome: Outcome, reason: str) -> str:
    """Return the error text for a start that has ended its process again and again."""
    return (
        f"Task {handle.id} ended the process of its slot {outcome.crashes} times in a row, less than {TRIAL_S:g} s "
        f"after its start and before it had committed anything, the last time as the only suspect: {reason}. Likely "
        "causes are too little memory (see the log of the system or the cluster manager; raise "
        "spark.executor.memoryOverhead or the container's limit) or a crash of a native library "
        "that the connector, a transform or a converter uses (see the executor's stderr); or, if its threads stood "
        "still, a call that holds Python's interpreter lock, such as a regular expression that backtracks. Restart the "
        "task when the cause is removed."
    )


def _has_committed(handle: TaskHandle) -> bool:
    return handle.report is not None and handle.report.counters.get("commits", 0) > 0


def _ended_start(handle: TaskHandle) -> EndedStart:
    is_paused = handle.report is not None and handle.report.state is RunState.PAUSED
    is_at_work = not is_paused and not _has_committed(handle)
    return EndedStart(handle.start, time.monotonic() - handle.times.hosted, is_at_work)
