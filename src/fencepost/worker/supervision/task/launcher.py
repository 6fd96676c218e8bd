"""Starts tasks: each is prepared in a thread of its connector, then given to a host, and again when values expire."""

import logging
import math
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from fencepost.cluster.info import ConnectorType
from fencepost.storage.ids import TargetState, TaskId
from fencepost.storage.status_topic import State
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.telemetry.traces import trace_of
from fencepost.worker.connector_classes import type_of
from fencepost.worker.supervision.automatic_restart import reload_in_s
from fencepost.worker.supervision.port import AWAY_S, HostLookup, NoRoomError
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task.endings import Failures
from fencepost.worker.supervision.task.event_loop import EventLoop
from fencepost.worker.supervision.task.handle import HandleState, StartIdentity, TaskHandle, TaskTable
from fencepost.worker.supervision.task.preparation import AbandonedError, AwayError, Preparation
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
