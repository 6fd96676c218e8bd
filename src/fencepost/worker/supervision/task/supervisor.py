"""Compares what should run on this worker with what runs: one thread that owns every task handle.

Everything that happens (a snapshot of the config topic, a report of a slot, a user's request) is an event in one queue.
After it, `_reconcile` moves what runs closer to what should run. The tasks of an old generation are stopped together,
and those of the new one are started one by one, once their predecessors have ended or were abandoned.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.cluster.running import Departures
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State
from fencepost.task.channel.message import HANGS, RunState, TaskReport
from fencepost.telemetry.subject import fields_of
from fencepost.telemetry.traces import reason_first
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.fence import TaskFence
from fencepost.worker.supervision.port import HostLookup, Notices
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task.endings import Endings, Failures
from fencepost.worker.supervision.task.event_loop import TICK_S, EventLoop
from fencepost.worker.supervision.task.handle import HandleState, TaskHandle, TaskTable
from fencepost.worker.supervision.task.launcher import Expiry, Launcher
from fencepost.worker.supervision.task.preparation import Preparation
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
        elif report.counters.get(HANGS) and handle.spec is not None and handle.spec.run.fails_when_it_hangs:
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


class TaskSupervisor:
    """Starts, stops, pauses and moves the tasks that are assigned to this worker.

    Any thread may call the public methods; they only queue an event.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        preparation: Preparation,
        hosts: HostLookup,
        board: StatusBoard,
        totals: TaskTotals,
        departures: Departures,
        notices: Notices,
        fence: TaskFence,
    ) -> None:
        """`departures`: starts that have to end, here and elsewhere."""
        grace_s = settings.config.task_shutdown_graceful_timeout_ms / 1000
        self._departures = departures
        self._notices = notices
        self._loop = EventLoop(self._tick)
        self._table = table = TaskTable(settings.incarnation)
        self._failures = Failures(table, board, totals)
        expiry = Expiry(table, self._loop, preparation, self._restart)
        self._launcher = Launcher(table, board, totals, self._loop, self._failures, preparation, hosts, expiry)
        self._endings = Endings(table, board, totals, self._loop, fence, grace_s)
        self._reports = TaskReports(table, board, totals, self._failures, self._endings)

    # any thread

    def start(self) -> None:
        self._loop.start()

    def shut_down(self, timeout_s: float) -> None:
        """Stop every task as its boundary decides, in at most `timeout_s` in total."""
        self._loop.put(self._begin_shutdown)
        self._loop.wait(timeout_s + 1.0)

    def changed(self, snapshot: ClusterSnapshot) -> None:
        """Follow a new state of the config topic."""
        self._loop.put(lambda: self._take_snapshot(snapshot))

    def cut_off(self, is_cut_off: bool) -> None:
        """Others may have this worker's tasks: end them all here until the worker is back in the cluster."""
        self._loop.put(lambda: self._take_cut(is_cut_off))

    def reported(self, reports: Sequence[TaskReport]) -> None:
        self._loop.put(lambda: self._take_reports(reports))

    def lost(self, incarnations: Sequence[str], reason: str) -> None:
        self._loop.put(lambda: self._take_loss(set(incarnations), reason))

    def crashed(self, incarnations: Sequence[str], reason: str) -> None:
        self._loop.put(lambda: self._take_crash(set(incarnations), reason))

    def room_changed(self) -> None:
        self._loop.put(self._reconcile)

    def restart(self, task: TaskId) -> None:
        """Stop the task, if it runs, and start it again (REST)."""
        self._loop.put(lambda: self._restart(task))

    def handle(self, task: TaskId) -> TaskHandle | None:
        """Return the newest start of a task."""
        return self._table.newest.get(task)

    def starts(self, task: TaskId) -> list[TaskHandle]:
        """Return the starts of a task that may be running here: the newest, or a stopping one before it."""
        return [handle for handle in self._table.starts(task) if handle.is_live]

    def count(self) -> int:
        return len(self._table.newest)

    # the supervisor's thread

    def _take_snapshot(self, snapshot: ClusterSnapshot) -> None:
        self._table.snapshot = snapshot
        self._reconcile()

    def _take_cut(self, is_cut_off: bool) -> None:
        self._table.is_cut_off = is_cut_off
        self._reconcile()

    def _take_reports(self, reports: Sequence[TaskReport]) -> None:
        stopping = len(self._table.stopping)
        self._reports.take(reports)
        if len(self._table.stopping) < stopping:
            self._reconcile()

    def _take_loss(self, incarnations: set[str], reason: str) -> None:
        self._endings.lost(incarnations, reason)
        self._reconcile()

    def _take_crash(self, incarnations: set[str], reason: str) -> None:
        """Restart the starts that a process took with it: innocent ones at once, suspects later, the culprit never."""
        culprits = self._failures.crashed(incarnations, reason)
        for culprit in culprits:
            self._endings.lock_out(culprit)
        self._take_loss(incarnations - {culprit.incarnation for culprit in culprits}, reason)

    def _restart(self, task: TaskId) -> None:
        handle = self._table.newest.get(task)
        if handle is not None:
            self._failures.restarted(handle)
            self._endings.let_go(handle)
        self._reconcile()

    def _begin_shutdown(self) -> None:
        self._table.is_shutting_down = True
        self._reconcile()

    def _tick(self) -> None:
        now = time.monotonic()
        self._endings.abandon_late(now)
        self._failures.look(now)
        self._launcher.expiry.look(now)
        self._reconcile()
        if self._table.is_shutting_down and not self._table.stopping:
            self._loop.end()

    def _reconcile(self) -> None:
        newest, wanted = self._table.newest, self._table.wanted()
        for task, handle in list(newest.items()):
            if wanted.get(task) != handle.generation:
                self._endings.let_go(handle)
        now = time.monotonic()
        for task, generation in wanted.items():
            current = newest.get(task)
            if current is not None and current.state is HandleState.FAILED:
                self._failures.follow(current, now)
            if current is None:
                if not self._has_predecessor(task, generation):
                    self._launcher.begin(task, generation)
            elif current.state is HandleState.WAITING and now >= current.again.at:
                self._launcher.place(current)
            elif current.state is HandleState.ENDED and now >= current.again.at:
                self._launcher.begin(task, generation)
            elif current.state is HandleState.HOSTED:
                self._launcher.follow_target(current)
        self._announce_ended()

    def _has_predecessor(self, task: TaskId, generation: int) -> bool:
        """Say whether a start has to wait: its fencing round would cut off stopping tasks of older generations."""
        return self._departures.blocks(task, generation, self._table.incarnation) or any(
            h.id == task or (h.id.connector == task.connector and h.generation != generation)
            for h in self._table.stopping
        )

    def _announce_ended(self) -> None:
        """Tell the others which of the cancelled starts have ended here, or never began."""
        called_off = self._departures.of(self._table.incarnation, self._table.snapshot.offset)
        if called_off:
            here = {h.start for h in (*self._table.stopping, *self._table.newest.values()) if h.is_live}
            ended = [start for start in called_off if start not in here]
            if ended:
                self._departures.ended(self._table.incarnation, ended)
                self._notices.ended_here(ended)
