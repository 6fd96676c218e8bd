"""Totals of the tasks on this worker, for the metrics."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from fencepost.storage.ids import TaskId
from fencepost.storage.status_topic import State
from fencepost.task.channel.message import RunState, TaskReport
from fencepost.telemetry.rate import WindowedRates

RATED = ("records_polled", "records_written", "commits")
"""The counters whose rates are kept, under their name and `_rate`."""
RUNNING_RATIO, PAUSE_RATIO = "running_ratio", "pause_ratio"


class TaskHistory:
    """Of one incarnation; times are monotonic seconds. Not thread-safe."""

    def __init__(self, incarnation: str, rates: WindowedRates, now_s: float) -> None:
        self.incarnation = incarnation
        self._rates = rates
        self._begun_s = self._since_s = now_s
        self._state: str = RunState.STARTING
        self._spent_s: dict[str, float] = {}

    def add(self, report: TaskReport, now_s: float) -> None:
        """Take the newest report."""
        self._spent_s[self._state] = self._spent_s.get(self._state, 0.0) + now_s - self._since_s
        self._state, self._since_s = report.state, now_s
        self._rates.add({name: report.counters.get(name, 0.0) for name in RATED}, now_s)

    def figures(self, now_s: float) -> Mapping[str, float]:
        """Return the rates a second, and the shares of its time, from 0 to 1; that ends with the start."""
        if self._state in _OVER:
            now_s = self._since_s
        rates = {f"{name}_rate": rate for name, rate in self._rates.per_second(now_s).items()}
        return {
            **rates,
            RUNNING_RATIO: self._share(State.RUNNING.value, now_s),
            PAUSE_RATIO: self._share(State.PAUSED.value, now_s),
        }

    def _share(self, state: str, now_s: float) -> float:
        whole_s = now_s - self._begun_s
        open_s = now_s - self._since_s if self._state == state else 0.0
        return (self._spent_s.get(state, 0.0) + open_s) / whole_s if whole_s > 0 else 0.0


class TaskHistories:
    """Those of the newest starts. Not thread-safe."""

    def __init__(self, rates: Callable[[], WindowedRates] = WindowedRates) -> None:
        """`rates` makes the windows of one start."""
        self._rates = rates
        self._of: dict[TaskId, TaskHistory] = {}
        self._reports: dict[TaskId, TaskReport] = {}

    def add(self, report: TaskReport) -> None:
        """Take the newest report of a task."""
        task, now_s = TaskId(report.connector, report.task), time.monotonic()
        history = self._of.get(task)
        if history is None or history.incarnation != report.incarnation:
            history = self._of[task] = TaskHistory(report.incarnation, self._rates(), now_s)
        history.add(report, now_s)
        self._reports[task] = report

    def keep_only(self, tasks: set[TaskId]) -> None:
        """Forget all others."""
        self._of = {task: history for task, history in self._of.items() if task in tasks}
        self._reports = {task: report for task, report in self._reports.items() if task in tasks}

    def reports(self) -> dict[TaskId, TaskReport]:
        """Return the newest reports, with rates a second and shares of time among their counters."""
        now_s = time.monotonic()
        return {
            task: replace(report, counters={**report.counters, **self._of[task].figures(now_s)})
            for task, report in self._reports.items()
        }


_OVER = frozenset(state.value for state in RunState if state.is_over)


class TaskTotals:
    """The newest counters of every task, and the outcomes of starts. Any thread."""

    def __init__(self, histories: TaskHistories | None = None) -> None:
        self._lock = threading.Lock()
        self._histories = histories or TaskHistories()
        self._pending: set[TaskId] = set()
        self.attempts = 0
        self.successes = 0
        self.failures = 0
        self.restarts = 0
        self.began_last_s = 0.0  # monotonic time of the newest start of any task

    def started(self, task: TaskId) -> None:
        with self._lock:
            self.attempts += 1
            self.began_last_s = time.monotonic()
            self._pending.add(task)

    def restarted(self) -> None:
        """Count an automatic restart after a failure."""
        with self._lock:
            self.restarts += 1

    def running(self, task: TaskId) -> None:
        with self._lock:
            if task in self._pending:
                self._pending.discard(task)
                self.successes += 1

    def failed(self, task: TaskId) -> None:
        with self._lock:
            if task in self._pending:
                self._pending.discard(task)
                self.failures += 1

    def reported(self, report: TaskReport) -> None:
        with self._lock:
            self._histories.add(report)

    def keep_only(self, tasks: set[TaskId]) -> None:
        """Forget deleted tasks."""
        with self._lock:
            self._histories.keep_only(tasks)

    def reports(self) -> Mapping[TaskId, TaskReport]:
        """Return the newest reports; their counters include rates a second and shares of time (`TaskHistory`)."""
        with self._lock:
            return self._histories.reports()
