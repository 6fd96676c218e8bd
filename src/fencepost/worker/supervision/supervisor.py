"""Compares what should run on this worker with what runs: one thread that owns every task handle.

Everything that happens (a snapshot of the config topic, a report of a slot, a user's request) is an event in one queue.
After it, `_reconcile` moves what runs closer to what should run. The tasks of an old generation are stopped together,
and those of the new one are started one by one, once their predecessors have ended or were abandoned.
"""

import logging
import math
import queue
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from fencepost.cluster.departure import Departures
from fencepost.cluster.info import ConnectorType
from fencepost.cluster.running import Start, running_on
from fencepost.cluster.threads_by_key import ThreadsByKey
from fencepost.storage.ids import TargetState, TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State
from fencepost.task.channel.message import RunState, TaskReport
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.telemetry.traces import trace_of
from fencepost.worker.connector_classes import type_of
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.automatic_restart import AutomaticRestarts, RestartPolicy
from fencepost.worker.supervision.port import HostLookup, NoRoomError, Notices, StartFence
from fencepost.worker.supervision.preparation import AbandonedError, Preparation
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task_handle import HandleState, TaskHandle
from fencepost.worker.supervision.task_metrics import TaskTotals
from fencepost.worker.supervision.trial import Trials, blame

log = logging.getLogger(__name__)

_TICK_S = 0.25
_ABANDONED_RETRY_S = 1.0
_PREPARED_TOGETHER = 32  # of one connector; those of other connectors never wait for them


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
        fence: StartFence,
    ) -> None:
        """`departures`: starts that have to end, here and elsewhere."""
        self._settings = settings
        self._preparation = preparation
        self._hosts = hosts
        self._board = board
        self._totals = totals
        self._departures = departures
        self._notices = notices
        self._fence = fence
        self._is_cut_off = False
        self.began_last_s = 0.0  # monotonic time of the newest start of any task
        self._snapshot = ClusterSnapshot()
        self._handles: dict[TaskId, TaskHandle] = {}
        self._stopping: list[TaskHandle] = []
        self._trials = Trials()
        self._restarts: AutomaticRestarts[Start] = AutomaticRestarts()
        self._events: queue.Queue[Callable[[], None]] = queue.Queue()
        self._is_shutting_down = False
        self._is_done = threading.Event()
        self._threads = ThreadsByKey(_PREPARED_TOGETHER, "prepare")
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    # any thread

    def start(self) -> None:
        self._thread.start()

    def shut_down(self, timeout_s: float) -> None:
        """Stop every task as its boundary decides, in at most `timeout_s` in total."""
        self._events.put(self._begin_shutdown)
        self._is_done.wait(timeout_s + 1.0)
        self._threads.stop()

    def changed(self, snapshot: ClusterSnapshot) -> None:
        """Follow a new state of the config topic."""
        self._events.put(lambda: self._take_snapshot(snapshot))

    def cut_off(self, is_cut_off: bool) -> None:
        """Others may have this worker's tasks: end them all here until the worker is back in the cluster."""
        self._events.put(lambda: self._take_cut(is_cut_off))

    def reported(self, reports: Sequence[TaskReport]) -> None:
        self._events.put(lambda: self._take_reports(reports))

    def lost(self, incarnations: Sequence[str], reason: str) -> None:
        self._events.put(lambda: self._take_loss(set(incarnations), reason))

    def crashed(self, incarnations: Sequence[str], reason: str) -> None:
        self._events.put(lambda: self._take_crash(set(incarnations), reason))

    def room_changed(self) -> None:
        self._events.put(self._reconcile)

    def restart(self, task: TaskId) -> None:
        """Stop the task, if it runs, and start it again (REST)."""
        self._events.put(lambda: self._restart(task))

    def handle(self, task: TaskId) -> TaskHandle | None:
        """Return the newest start of a task."""
        return self._handles.get(task)

    def starts(self, task: TaskId) -> list[TaskHandle]:
        """Return the starts of a task that may be running here: the newest, or a stopping one before it."""
        newest = self._handles.get(task)
        return [h for h in (newest, *self._stopping) if h is not None and h.id == task and h.is_live]

    def count(self) -> int:
        return len(self._handles)

    # the supervisor's thread

    def _run(self) -> None:
        while not self._is_done.is_set():
            try:
                event: Callable[[], None] = self._events.get(timeout=_TICK_S)
            except queue.Empty:
                event = self._tick
            try:
                event()
                if self._events.empty():
                    self._tick()
            except BaseException:
                log.exception("the supervisor had an unexpected error")

    def _take_snapshot(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._reconcile()

    def _take_cut(self, is_cut_off: bool) -> None:
        self._is_cut_off = is_cut_off
        self._reconcile()

    def _tick(self) -> None:
        now = time.monotonic()
        for handle in [h for h in self._stopping if h.stop_deadline is not None and now >= h.stop_deadline]:
            self._abandon(handle)
        self._trials.look(self._handles.values(), now)
        self._restarts.keep_only(handle.start for handle in self._handles.values())
        self._reconcile()
        if self._is_shutting_down and not self._stopping:
            self._is_done.set()

    def _reconcile(self) -> None:
        is_ending = self._is_shutting_down or self._is_cut_off
        wanted = {} if is_ending else running_on(self._snapshot, self._settings.incarnation)
        for task, handle in list(self._handles.items()):
            if wanted.get(task) != handle.generation:
                self._let_go(handle)
        now = time.monotonic()
        for task, generation in wanted.items():
            current = self._handles.get(task)
            if current is None:
                if not self._has_predecessor(task, generation):
                    self._begin(task, generation)
            elif current.state is HandleState.WAITING and now >= current.starts_again_at:
                self._place(current)
            elif current.state is HandleState.ENDED and now >= current.starts_again_at:
                self._begin(task, generation)
            elif current.state is HandleState.HOSTED:
                self._follow_target(current)
            elif current.state is HandleState.FAILED:
                self._see_to_failed(current, now)
        self._announce_ended()

    def _announce_ended(self) -> None:
        """Tell the others which of the cancelled starts have ended here, or never began."""
        called_off = self._departures.of(self._settings.incarnation, self._snapshot.offset)
        if called_off:
            here = {h.start for h in (*self._stopping, *self._handles.values()) if h.is_live}
            ended = [start for start in called_off if start not in here]
            if ended:
                self._departures.ended(self._settings.incarnation, ended)
                self._notices.ended_here(ended)

    def _has_predecessor(self, task: TaskId, generation: int) -> bool:
        """Say whether a start has to wait: its fencing round would cut off stopping tasks of older generations."""
        return self._departures.blocks(task, generation, self._settings.incarnation) or any(
            h.id == task or (h.id.connector == task.connector and h.generation != generation) for h in self._stopping
        )

    def _begin(self, task: TaskId, generation: int) -> None:
        target, assignment = self._snapshot.target_state(task.connector).value, self._snapshot.assignment
        assert assignment is not None  # as there is something to begin
        is_sink = type_of(self._snapshot, task.connector) is ConnectorType.SINK
        handle = TaskHandle(
            task, generation, uuid.uuid4().hex, target, assigned_in=assignment.generation, is_sink=is_sink
        )
        self._handles[task] = handle
        self.began_last_s = time.monotonic()
        self._totals.started(task)
        self._threads.submit(task.connector, self._prepare, handle)

    def _prepare(self, handle: TaskHandle) -> None:
        """Run steps 1 to 4, in a thread of the connector's, and queue the result."""
        try:
            spec = self._preparation.prepare(handle)
        except AbandonedError as error:
            reason = str(error)
            self._events.put(lambda: self._give_up(handle, reason))
        except BaseException as error:
            trace = trace_of(error)
            self._events.put(lambda: self._fail(handle, trace))
        else:
            self._events.put(lambda: self._prepared(handle, spec))

    def _prepared(self, handle: TaskHandle, spec: TaskSpec) -> None:
        if self._handles.get(handle.id) is not handle or handle.state is not HandleState.PREPARING:
            return
        handle.spec = spec
        handle.move(HandleState.WAITING)
        handle.prepared_at = time.monotonic()
        self._place(handle)

    def _place(self, handle: TaskHandle) -> None:
        assert handle.spec is not None
        target = self._snapshot.target_state(handle.id.connector).value
        handle.target = target
        spec = replace(
            handle.spec, target_state=target, runs_alone=self._trials.runs_alone(handle, self._handles.values())
        )
        try:
            host = self._hosts.of(str(spec.connector_config["connector.class"]))
            handle.host = host
            handle.move(HandleState.HOSTED)  # before the start, as its request for admission may come at once
            handle.hosted_at = time.monotonic()
            host.start(spec)
            log.info("task %s starts here", handle.id)
        except NoRoomError as error:
            handle.move(HandleState.WAITING)
            handle.starts_again_at = time.monotonic() + 0.5
            if handle.reason != str(error):
                handle.reason = str(error)
                self._board.task(handle.id, State.UNASSIGNED, str(error))
        except BaseException as error:
            self._fail(handle, trace_of(error))

    def _follow_target(self, handle: TaskHandle) -> None:
        target = self._snapshot.target_state(handle.id.connector).value
        if target == handle.target or handle.host is None:
            return
        handle.target = target
        if target == TargetState.PAUSED.value:
            handle.host.pause(handle.incarnation)
        else:
            handle.host.resume(handle.incarnation)

    def _let_go(self, handle: TaskHandle) -> None:
        """End a start that is no longer wanted, gracefully if it runs."""
        self._handles.pop(handle.id, None)
        if handle.state is HandleState.HOSTED and handle.host is not None:
            handle.move(HandleState.STOPPING)
            handle.stop_deadline = time.monotonic() + self._settings.config.task_shutdown_graceful_timeout_ms / 1000
            self._stopping.append(handle)
            handle.host.stop(handle.incarnation)
        elif handle.state is not HandleState.ENDED:
            handle.move(HandleState.ENDED)
            self._write_unassigned(handle)

    def _ended(self, handle: TaskHandle) -> None:
        """Handle the end of a start that was let go, whether or not it was graceful."""
        handle.move(HandleState.ENDED)
        if handle in self._stopping:
            self._stopping.remove(handle)
        self._write_unassigned(handle)
        self._reconcile()

    def _write_unassigned(self, handle: TaskHandle) -> None:
        """Write UNASSIGNED for a task without a start here, unless it is deleted, which the leader writes.

        It has the group generation of its start: with a later one it could hide the RUNNING of another owner.
        """
        if self._is_cut_off:
            return  # it would appear after the status of the task's next owner
        if handle.id not in self._handles and self._snapshot.has_task(handle.id):
            self._board.task(handle.id, State.UNASSIGNED, generation=handle.assigned_in)

    def _abandon(self, handle: TaskHandle) -> None:
        log.warning(
            "task %s did not stop within task.shutdown.graceful.timeout.ms and is abandoned; the fence keeps it out",
            handle.id,
        )
        if handle.report is not None:
            self._totals.reported(replace(handle.report, state=RunState.ABANDONED))  # it reports nothing more
        neighbours = handle.host.abandon(handle.incarnation) if handle.host is not None else ()
        self._end_what_is_open(handle)
        self._ended(handle)
        for incarnation in neighbours:
            self._move_away(incarnation)

    def _end_what_is_open(self, handle: TaskHandle) -> None:
        """End the transaction, or the membership, of a start that ended without a report.

        If another start follows, that one does so; if none follows, all readers of the offsets topic would wait for the
        timeout of the transaction.
        """
        id_, snapshot = handle.id, self._snapshot
        is_followed = snapshot.has_task(id_) and snapshot.target_state(id_.connector) is not TargetState.STOPPED
        if not is_followed:
            self._lock_out(handle)

    def _lock_out(self, handle: TaskHandle) -> None:
        if handle.spec is not None and (handle.spec.is_sink or handle.spec.is_exactly_once):
            self._threads.submit(("lock out", handle.id.connector), self._fence.lock_out, handle.spec)

    def _move_away(self, incarnation: str) -> None:
        for handle in list(self._handles.values()):
            if handle.incarnation == incarnation and handle.state is HandleState.HOSTED:
                self._let_go(handle)

    def _give_up(self, handle: TaskHandle, reason: str) -> None:
        """Handle an abandoned start. It is not a failure; if the task is still wanted, it is started again."""
        if self._handles.get(handle.id) is not handle:
            return
        log.info("start of task %s abandoned: %s", handle.id, reason)
        handle.move(HandleState.ENDED)
        handle.starts_again_at = time.monotonic() + _ABANDONED_RETRY_S

    def _fail(self, handle: TaskHandle, trace: str) -> None:
        if self._handles.get(handle.id) is not handle or not handle.is_live:
            return
        log.error("connector %s, task %d: failed: %s", *handle.id, trace.strip())
        handle.move(HandleState.FAILED)
        handle.failure = trace
        self._totals.failed(handle.id)
        self._plan_restart(handle)
        self._board.failed(handle.id, trace, handle.plan)

    def _plan_restart(self, handle: TaskHandle) -> None:
        """Plan an automatic restart after a failure, if configured, and unless the task is paused."""
        target, now = self._snapshot.target_state(handle.id.connector), time.monotonic()
        policy = RestartPolicy.of(self._snapshot.connectors.get(handle.id.connector, {}))
        lived_s = now - handle.hosted_at if handle.hosted_at else 0.0
        is_paused = target is TargetState.PAUSED
        handle.target = target.value
        handle.plan = None if is_paused else self._restarts.failed(handle.start, policy, lived_s)
        in_s = None if handle.plan is None else handle.plan.in_s
        handle.starts_again_at = math.inf if in_s is None else now + in_s

    def _see_to_failed(self, handle: TaskHandle, now: float) -> None:
        """Restart it automatically when that is due. A pause cancels that; after a resume the count begins at 0."""
        if self._snapshot.target_state(handle.id.connector).value != handle.target:
            before = handle.plan
            self._restarts.forget(handle.start)
            self._plan_restart(handle)
            if handle.plan != before:
                self._board.failed(handle.id, handle.failure, handle.plan)
        elif now >= handle.starts_again_at:
            self._restarts.made(handle.start)
            self._totals.restarted()
            log.info("task %s is restarted automatically", handle.id)
            handle.move(HandleState.ENDED)
            self._board.task(handle.id, State.RESTARTING)
            self._begin(*handle.start)

    def _restart(self, task: TaskId) -> None:
        handle = self._handles.get(task)
        if handle is not None:
            self._board.task(task, State.RESTARTING)
            self._trials.clear(handle)
            self._restarts.forget(handle.start)
            self._let_go(handle)
        self._reconcile()

    def _take_loss(self, incarnations: set[str], reason: str) -> None:
        for handle in [h for h in self._stopping if h.incarnation in incarnations]:
            self._end_what_is_open(handle)
            self._ended(handle)
        for handle in [h for h in self._handles.values() if h.incarnation in incarnations]:
            log.warning("task %s starts again: %s", handle.id, reason)
            handle.move(HandleState.ENDED)
            self._board.task(handle.id, State.RESTARTING, reason)  # readers prefer RUNNING to a later UNASSIGNED
        self._reconcile()

    def _take_crash(self, incarnations: set[str], reason: str) -> None:
        """Restart the starts that a process took with it: innocent ones at once, suspects later, the culprit never."""
        there = [h for h in self._handles.values() if h.incarnation in incarnations and h.is_live]
        for handle, outcome in self._trials.crashed(there):
            if outcome.is_culprit:
                incarnations = incarnations - {handle.incarnation}
                self._fail(handle, blame(handle, outcome, reason))
                self._lock_out(handle)
        self._take_loss(incarnations, reason)

    def _take_reports(self, reports: Sequence[TaskReport]) -> None:
        for report in reports:
            self._totals.reported(report)
            if report.connector in self._snapshot.connectors and self._has_written(report):
                for topic in report.topics:
                    self._board.topic(report.connector, topic, report.task)
            handle = self._handles.get(TaskId(report.connector, report.task))
            if handle is not None and handle.incarnation == report.incarnation:
                self._take_report(handle, report)
            else:
                self._take_last_report(report)

    def _has_written(self, report: TaskReport) -> bool:
        """Say whether records were written since the last report: reset topics stay reset until then."""
        starts = (self._handles.get(TaskId(report.connector, report.task)), *self._stopping)
        start = next((h for h in starts if h is not None and h.incarnation == report.incarnation), None)
        if start is None:
            return False
        last, key = start.report, "records_written"
        return last is None or report.counters.get(key, 0) > last.counters.get(key, 0) or report.topics != last.topics

    def _take_report(self, handle: TaskHandle, report: TaskReport) -> None:
        before, trace = (handle.report.state, handle.report.trace) if handle.report else (None, None)
        handle.report = report
        if report.state is RunState.FAILED:
            self._fail(handle, report.trace or "")
        elif report.state is RunState.ABANDONED:
            self._give_up(handle, report.trace or "")
        elif report.state is RunState.STOPPED and handle.state is HandleState.HOSTED:
            handle.move(HandleState.ENDED)  # its slot is leaving by itself
            handle.starts_again_at = time.monotonic() + _TICK_S
        elif report.state in (RunState.RUNNING, RunState.PAUSED) and (report.state, report.trace) != (before, trace):
            if report.state is RunState.RUNNING and before is not RunState.RUNNING:
                self._totals.running(handle.id)
            self._board.task(handle.id, State(report.state), report.trace)

    def _take_last_report(self, report: TaskReport) -> None:
        handle = next((h for h in self._stopping if h.incarnation == report.incarnation), None)
        if handle is None:
            return
        handle.report = report
        if report.state.is_over:
            if report.state is RunState.FAILED:
                log.error("connector %s, task %d: failed while it was stopping: %s", *handle.id, report.trace)
            self._ended(handle)

    def _begin_shutdown(self) -> None:
        self._is_shutting_down = True
        self._reconcile()
