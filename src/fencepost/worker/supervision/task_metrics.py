"""Totals of the tasks on this worker, for the metrics."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from fencepost.storage.change import TaskId
from fencepost.storage.status_topic import State
from fencepost.task.channel.message import RunState, TaskReport
from fencepost.telemetry.measure import WindowedRates

RATED = ("records_polled", "records_written", "commits")
"""The counters whose rates are kept, under their name and `_rate`."""
RUNNING_RATIO, PAUSE_RATIO = "running_ratio", "pause_ratio"


class TaskHistory:
    """Of one incarnation; times are monotonic seconds. Not thread-safe."""

    def __init__(self, report: TaskReport, rates: WindowedRates, now_s: float) -> None:
        """`report` is the first one."""
        self.report = report
        self._rates = rates
        self._begun_s = self._since_s = now_s
        self._state: str = RunState.STARTING
        self._spent_s: dict[str, float] = {}

    def add(self, report: TaskReport, now_s: float) -> None:
        """Take the newest report."""
        self._spent_s[self._state] = self._spent_s.get(self._state, 0.0) + now_s - self._since_s
        self.report, self._state, self._since_s = report, report.state, now_s
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


_OVER = frozenset(state.value for state in RunState if state.is_over)


class StartupCounts(dict[str, int]):
    """How many starts there were, by outcome. Thread-safe."""

    def __init__(self) -> None:
        super().__init__(attempts=0, successes=0, failures=0, restarts=0)
        self._lock = threading.Lock()

    def add(self, outcome: str) -> None:
        with self._lock:
            self[outcome] += 1


class TaskTotals:
    """The newest counters of every task, and the outcomes of starts. Any thread."""

    def __init__(self, rates: Callable[[], WindowedRates] = WindowedRates) -> None:
        """`rates` makes the windows of one start."""
        self._rates = rates
        self._lock = threading.Lock()
        self._newest: dict[TaskId, TaskHistory] = {}
        self._pending: set[TaskId] = set()
        self.startups = StartupCounts()
        self.began_last_s = 0.0  # monotonic time of the newest start of any task

    def started(self, task: TaskId) -> None:
        with self._lock:
            self.startups.add("attempts")
            self.began_last_s = time.monotonic()
            self._pending.add(task)

    def restarted(self) -> None:
        """Count an automatic restart after a failure."""
        self.startups.add("restarts")

    def running(self, task: TaskId) -> None:
        with self._lock:
            if task in self._pending:
                self._pending.discard(task)
                self.startups.add("successes")

    def failed(self, task: TaskId) -> None:
        with self._lock:
            if task in self._pending:
                self._pending.discard(task)
                self.startups.add("failures")

    def reported(self, report: TaskReport) -> None:
        task, now_s = TaskId(report.connector, report.task), time.monotonic()
        with self._lock:
            history = self._newest.get(task)
            if history is None or history.report.incarnation != report.incarnation:
                history = self._newest[task] = TaskHistory(report, self._rates(), now_s)
            history.add(report, now_s)

    def keep_only(self, tasks: set[TaskId]) -> None:
        """Forget deleted tasks."""
        with self._lock:
            self._newest = {task: history for task, history in self._newest.items() if task in tasks}

    def reports(self) -> Mapping[TaskId, TaskReport]:
        """Return the newest reports; their counters include rates a second and shares of time (`TaskHistory`)."""
        now_s = time.monotonic()
        with self._lock:
            return {
                task: replace(each.report, counters={**each.report.counters, **each.figures(now_s)})
                for task, each in self._newest.items()
            }
