"""Reports of tasks: what they mean for their starts, statuses, topics and totals."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.config import ConfigError
from fencepost.config.connector import RuntimeChoice
from fencepost.config.raw import given_values
from fencepost.storage.ids import TaskId
from fencepost.storage.status_topic import State
from fencepost.task.channel.message import HANGS, RunState, TaskReport
from fencepost.telemetry.subject import fields_of
from fencepost.telemetry.traces import reason_first
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task.endings import Endings, Failures
from fencepost.worker.supervision.task.event_loop import TICK_S
from fencepost.worker.supervision.task.handle import HandleState, TaskHandle, TaskTable
from fencepost.worker.supervision.task_metrics import TaskTotals

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskReports:
    """Used by the supervisor's thread."""

    table: TaskTable
    board: StatusBoard
    totals: TaskTotals
    failures: Failures
    endings: Endings

    def take(self, reports: Sequence[TaskReport]) -> None:
        for report in reports:
            self.totals.reported(report)
            starts = self.table.starts(TaskId(report.connector, report.task))
            handle = next((h for h in starts if h.incarnation == report.incarnation), None)
            if handle is not None:
                self._take(handle, report)

    def _take(self, handle: TaskHandle, report: TaskReport) -> None:
        last, handle.report = handle.report, report
        if report.connector in self.table.snapshot.connectors and _has_written(last, report):
            for topic in report.topics:
                self.board.topic(report.connector, topic, report.task)
        if self.table.is_newest(handle):
            self._follow(handle, last, report)
        elif report.state.is_over:
            if report.state is RunState.FAILED:
                text = "connector %s, task %d: failed while it was stopping: %s"
                log.error(text, *handle.id, reason_first(report.trace or ""), extra=fields_of(*handle.id))
            self.endings.ended(handle)

    def _follow(self, handle: TaskHandle, last: TaskReport | None, report: TaskReport) -> None:
        if handle.state is HandleState.FAILED:  # it stood still, was given up, and reported once more before it knew
            return
        if report.state is RunState.FAILED:
            self.failures.failed(handle, report.trace or "")
        elif report.state is RunState.ABANDONED:
            self.failures.abandoned(handle, report.trace or "")
        elif report.state is RunState.STOPPED and handle.state is HandleState.HOSTED:
            handle.move(HandleState.ENDED)  # its slot is leaving by itself
            handle.again.at = time.monotonic() + TICK_S
        elif report.counters.get(HANGS) and _fails_when_it_hangs(self.table, handle):
            self.failures.failed(handle, report.trace or "")
            self.endings.give_up(handle)
        elif report.state is RunState.STARTING and report.trace != (last.trace if last is not None else None):
            self.board.task(handle.id, State.UNASSIGNED, report.trace)
        elif report.state in (RunState.RUNNING, RunState.PAUSED):
            before = None if last is None else last.state
            if report.state is RunState.RUNNING and before is not RunState.RUNNING:
                self.totals.running(handle.id)
            if last is None or (report.state, report.trace) != (last.state, last.trace):
                self.board.task(handle.id, State(report.state), report.trace)


def _has_written(last: TaskReport | None, report: TaskReport) -> bool:
    """Say whether records were written since the last report: reset topics stay reset until then."""
    key = "records_written"
    return last is None or report.counters.get(key, 0) > last.counters.get(key, 0) or report.topics != last.topics


def _fails_when_it_hangs(table: TaskTable, handle: TaskHandle) -> bool:
    try:
        choice = RuntimeChoice(given_values(table.snapshot.connectors.get(handle.id.connector, {})))
    except ConfigError:  # another worker may have stored it
        return False
    return choice.progress_timeout_action.lower() == "fail"
