"""Totals of the tasks on this worker, for the metrics."""

import threading
import time
from collections.abc import Mapping

from fencepost.storage.ids import TaskId
from fencepost.task.channel.message import TaskReport
from fencepost.worker.supervision.task_history import TaskHistories


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
