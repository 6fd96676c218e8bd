"""The begin of a start of a task: it is prepared in a thread of its connector's, and then given to a host."""

import logging
import time
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, replace

from fencepost.cluster.info import ConnectorType
from fencepost.storage.ids import TargetState, TaskId
from fencepost.storage.status_topic import State
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.telemetry.traces import trace_of
from fencepost.worker.connector_classes import type_of
from fencepost.worker.reload import reload_in_s
from fencepost.worker.supervision.port import HostLookup, NoRoomError
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task.event_loop import EventLoop
from fencepost.worker.supervision.task.expiry import Expiry
from fencepost.worker.supervision.task.failures import Failures
from fencepost.worker.supervision.task.handle import HandleState, StartIdentity, TaskHandle
from fencepost.worker.supervision.task.preparation import AbandonedError, AwayError, Preparation
from fencepost.worker.supervision.task.table import TaskTable
from fencepost.worker.supervision.task_metrics import TaskTotals

log = logging.getLogger(__name__)

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
        runs_alone = self.failures.trials.runs_alone(handle, self.table.newest.values())
        spec = replace(handle.spec, target_state=handle.target, runs_alone=runs_alone)
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
