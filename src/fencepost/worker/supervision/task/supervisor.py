"""Compares what should run on this worker with what runs: one thread that owns every task handle.

Everything that happens (a snapshot of the config topic, a report of a slot, a user's request) is an event in one queue.
After it, `_reconcile` moves what runs closer to what should run. The tasks of an old generation are stopped together,
and those of the new one are started one by one, once their predecessors have ended or were abandoned. Each is prepared
in a thread of its connector, then given to a host, and again when values expire.
"""

import logging
import math
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from fencepost.cluster.info import ConnectorType
from fencepost.cluster.running import Departures
from fencepost.cluster.threads import TICK_S, EventLoop
from fencepost.storage.change import TargetState, TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State
from fencepost.task.channel.message import HANGS, RunState, TaskReport
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.telemetry.loggers import fields_of
from fencepost.telemetry.traces import reason_first, trace_of
from fencepost.worker.plan import type_of
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.automatic_restart import reload_in_s
from fencepost.worker.supervision.fence import TaskFence
from fencepost.worker.supervision.port import AWAY_S, HostLookup, NoRoomError, Notices
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task.endings import Endings, Failures
from fencepost.worker.supervision.task.handle import HandleState, StartIdentity, TaskHandle, TaskTable
from fencepost.worker.supervision.task.specs import AbandonedError, AwayError, Preparation
from fencepost.worker.supervision.task_metrics import TaskTotals

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Expiry:
    """Used by the supervisor's thread. `restart` stops a task and starts it again.

    A task that runs is stopped only when its values can be looked up again: until then, the old ones may still be
    accepted. A start that does not run yet is left alone, as it looks up its values by itself.
    """

    table: TaskTable
    loop: EventLoop
    preparation: Preparation
    restart: Callable[[TaskId], None]

    def look(self, now: float) -> None:
        for handle in list(self.table.newest.values()):
            config = self.table.snapshot.connectors.get(handle.id.connector)
            if now >= handle.times.reload_at and _runs(handle) and config is not None:
                handle.times.reload_at = math.inf
                asked = self.loop.submit(handle.id.connector, self.preparation.why_away, config)
                asked.add_done_callback(partial(self._pass_on, handle))

    def _pass_on(self, handle: TaskHandle, asked: "Future[str]") -> None:
        self.loop.put(lambda: self._take(handle, asked))

    def _take(self, handle: TaskHandle, asked: "Future[str]") -> None:
        if asked.cancelled() or not self.table.is_newest(handle) or not _runs(handle):
            return
        if why := asked.result():
            log.warning("task %s goes on with values that have expired: %s", handle.id, why)
            handle.times.reload_at = time.monotonic() + AWAY_S
        else:
            log.info("task %s is restarted: what its configs refer to has expired", handle.id)
            self.restart(handle.id)


def _runs(handle: TaskHandle) -> bool:
    is_up = handle.report is not None and handle.report.state in (RunState.RUNNING, RunState.PAUSED)
    return is_up and handle.state is HandleState.HOSTED


_NO_ROOM_RETRY_S = 0.5


@dataclass(frozen=True)
class Launcher:
    """Used by the supervisor's thread."""

    table: TaskTable
    board: StatusBoard
    totals: TaskTotals
    loop: EventLoop
    failures: Failures
    preparation: Preparation
    hosts: HostLookup
    expiry: Expiry

    def begin(self, task: TaskId, generation: int) -> None:
        """Begin with steps 1 to 4. The rest follows when they have been carried out."""
        assignment = self.table.snapshot.assignment
        assert assignment is not None  # as there is something to begin
        is_sink = type_of(self.table.snapshot, task.connector) is ConnectorType.SINK
        identity = StartIdentity(task, generation, uuid.uuid4().hex, assignment.generation, is_sink)
        handle = TaskHandle(identity, self.table.target(task).value)
        if (before := self.table.newest.get(task)) is not None and before.again.is_said:
            handle.again.why, handle.again.is_said = before.again.why, True
        self.table.newest[task] = handle
        self.totals.started(task)
        prepared = self.loop.submit(task.connector, self.preparation.prepare, handle)
        prepared.add_done_callback(lambda done: self.loop.put(lambda: self._prepared(handle, done)))

    def _prepared(self, handle: TaskHandle, done: "Future[TaskSpec]") -> None:
        if done.cancelled():  # the worker ends
            return
        error = done.exception()
        if isinstance(error, AbandonedError):
            self.failures.abandoned(handle, str(error), is_shown=isinstance(error, AwayError))
        elif error is not None:
            self.failures.failed(handle, trace_of(error))
        elif self.table.is_newest(handle) and handle.state is HandleState.PREPARING:
            handle.spec = done.result()
            handle.move(HandleState.WAITING)
            handle.times.prepared = time.monotonic()
            references = handle.spec.look_up.references
            ttl_ms = None if references is None else references.ttl_ms
            if (in_s := reload_in_s(handle.spec.connector_config, ttl_ms)) is not None:
                handle.times.reload_at = handle.times.prepared + in_s
            self.place(handle)

    def place(self, handle: TaskHandle) -> None:
        """Give a prepared start to a host. If there is no room, it waits."""
        assert handle.spec is not None
        handle.target = self.table.target(handle.id).value
        is_alone = self.failures.trials.runs_alone(handle, self.table.newest.values())
        spec = replace(handle.spec, target_state=handle.target, run=replace(handle.spec.run, is_alone=is_alone))
        try:
            handle.host = self.hosts.of(spec.connector_config)
            handle.move(HandleState.HOSTED)  # before the start, as its request for admission may come at once
            handle.times.hosted = time.monotonic()
            handle.host.start(spec)
            log.info("task %s starts here", handle.id)
        except NoRoomError as error:
            handle.move(HandleState.WAITING)
            handle.again.at = time.monotonic() + _NO_ROOM_RETRY_S
            if handle.again.why != str(error):
                handle.again.why = str(error)
                self.board.task(handle.id, State.UNASSIGNED, str(error))
        except BaseException as error:
            self.failures.failed(handle, trace_of(error))

    def follow_target(self, handle: TaskHandle) -> None:
        """Pause or resume a start if its connector's target state has changed."""
        target = self.table.target(handle.id)
        if target.value == handle.target or handle.host is None:
            return
        handle.target = target.value
        if target is TargetState.PAUSED:
            handle.host.pause(handle.incarnation)
        else:
            handle.host.resume(handle.incarnation)


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
