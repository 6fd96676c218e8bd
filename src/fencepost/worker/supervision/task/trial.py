"""Applies `Suspicions` to task handles: finds the starts that may have killed their slot's process."""

import time
from collections.abc import Collection, Iterable

from fencepost.task.channel.message import RunState
from fencepost.worker.supervision.task.handle import HandleState, TaskHandle
from fencepost.worker.supervision.task.suspicion import TRIAL_S, Life, Outcome, Suspicions


class Trials:
    """Used by the supervisor's thread."""

    def __init__(self) -> None:
        self._suspicions = Suspicions()

    def crashed(self, handles: Iterable[TaskHandle]) -> list[tuple[TaskHandle, Outcome]]:
        """Count a crash of the process that ran these starts, and delay their next starts. Returns the outcomes."""
        there = {handle.start: handle for handle in handles}
        outcomes = self._suspicions.crashed([_life(handle) for handle in there.values()])
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
        return waits_s < TRIAL_S or any(self._is_on_trial(other) for other in all_handles)

    def clear(self, handle: TaskHandle) -> None:
        """Stop suspecting a start, because a user has restarted it."""
        self._suspicions.clear(handle.start)

    def look(self, handles: Collection[TaskHandle], now: float) -> None:
        """Clear the starts that have lived long enough or make progress, and forget those that are over."""
        self._suspicions.keep_only(handle.start for handle in handles)
        for handle in handles:
            if handle.state is HandleState.HOSTED and (now - handle.times.hosted > TRIAL_S or _has_committed(handle)):
                self._suspicions.clear(handle.start)

    def _is_on_trial(self, handle: TaskHandle) -> bool:
        return handle.state is HandleState.HOSTED and self._suspicions.is_suspect(handle.start)


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


def _life(handle: TaskHandle) -> Life:
    is_paused = handle.report is not None and handle.report.state is RunState.PAUSED
    is_at_work = not is_paused and not _has_committed(handle)
    return Life(handle.start, time.monotonic() - handle.times.hosted, is_at_work)
