"""The end of a start of a task: it fails, is stopped or abandoned, or is lost with its process."""

import logging
import math
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from fencepost.cluster.running import Start
from fencepost.cluster.threads import EventLoop
from fencepost.storage.change import TargetState
from fencepost.storage.status_topic import State
from fencepost.task.channel.message import RunState
from fencepost.telemetry.loggers import fields_of
from fencepost.telemetry.traces import reason_first
from fencepost.worker.supervision.automatic_restart import AutomaticRestarts, RestartPolicy
from fencepost.worker.supervision.fence import TaskFence
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task.handle import HandleState, TaskHandle, TaskTable
from fencepost.worker.supervision.task.suspicion import Trials, blame
from fencepost.worker.supervision.task_metrics import TaskTotals

log = logging.getLogger(__name__)

_ABANDONED_RETRY_S = 1.0


@dataclass
class Failures:
    """Used by the supervisor's thread."""

    table: TaskTable
    board: StatusBoard
    totals: TaskTotals
    trials: Trials = field(default_factory=Trials)
    restarts: AutomaticRestarts[Start] = field(default_factory=AutomaticRestarts)

    def look(self, now: float) -> None:
        """Forget what is over: suspicions, and counts of restarts."""
        self.trials.look(self.table.newest.values(), now)
        self.restarts.keep_only(handle.start for handle in self.table.newest.values())

    def restarted(self, handle: TaskHandle) -> None:
        """Forget a start's failures and crashes, because a user restarts the task."""
        self.board.task(handle.id, State.RESTARTING)
        self.trials.clear(handle)
        self.restarts.forget(handle.start)

    def abandoned(self, handle: TaskHandle, reason: str, *, is_shown: bool = False) -> None:
        """Handle an abandoned start. It is not a failure; if the task is still wanted, it is started again.

        Where the reason `is_shown`, the status has it, once until it changes.
        """
        if self.table.is_newest(handle):
            log.info("start of task %s abandoned: %s", handle.id, reason)
            handle.move(HandleState.ENDED)
            handle.again.at = time.monotonic() + _ABANDONED_RETRY_S
            if is_shown and (handle.again.why, handle.again.is_said) != (reason, True):
                handle.again.why, handle.again.is_said = reason, True
                self.board.task(handle.id, State.UNASSIGNED, reason)

    def failed(self, handle: TaskHandle, trace: str) -> None:
        if not self.table.is_newest(handle) or not handle.is_live:
            return
        log.error("connector %s, task %d: failed: %s", *handle.id, reason_first(trace), extra=fields_of(*handle.id))
        handle.move(HandleState.FAILED)
        handle.again.why = trace
        self.totals.failed(handle.id)
        self._plan_restart(handle)
        self.board.failed(handle.id, trace, handle.again.plan)

    def crashed(self, incarnations: Collection[str], reason: str) -> list[TaskHandle]:
        """Fail the start that is to blame for the end of the process that ran these. Returns it, if there is one."""
        there = [handle for handle in self.table.newest_among(incarnations) if handle.is_live]
        culprits = []
        for handle, outcome in self.trials.crashed(there):
            if outcome.is_culprit:
                self.failed(handle, blame(handle, outcome, reason))
                culprits.append(handle)
        return culprits

    def follow(self, handle: TaskHandle, now: float) -> None:
        """End a failed start when its automatic restart is due.

        A pause cancels the restart; after a resume the count begins at 0.
        """
        if self.table.target(handle.id).value != handle.target:
            before = handle.again.plan
            self.restarts.forget(handle.start)
            self._plan_restart(handle)
            if handle.again.plan != before:
                self.board.failed(handle.id, handle.again.why, handle.again.plan)
        elif now >= handle.again.at:
            self.restarts.made(handle.start)
            self.totals.restarted()
            log.info("task %s is restarted automatically", handle.id)
            handle.move(HandleState.ENDED)
            self.board.task(handle.id, State.RESTARTING)

    def _plan_restart(self, handle: TaskHandle) -> None:
        target, now = self.table.target(handle.id), time.monotonic()
        policy = RestartPolicy.of(self.table.snapshot.connectors.get(handle.id.connector, {}))
        lived_s = now - handle.times.hosted if handle.times.hosted else 0.0
        is_paused = target is TargetState.PAUSED
        handle.target = target.value
        handle.again.plan = None if is_paused else self.restarts.failed(handle.start, policy, lived_s)
        in_s = None if handle.again.plan is None else handle.again.plan.in_s
        handle.again.at = math.inf if in_s is None else now + in_s


@dataclass(frozen=True)
class Endings:
    """Used by the supervisor's thread. `grace_s` is how long a task may take to stop."""

    table: TaskTable
    board: StatusBoard
    totals: TaskTotals
    loop: EventLoop
    fence: TaskFence
    grace_s: float

    def let_go(self, handle: TaskHandle) -> None:
        """End a start that is no longer wanted, gracefully if it runs."""
        self.table.newest.pop(handle.id, None)
        if handle.state is HandleState.HOSTED and handle.host is not None:
            handle.move(HandleState.STOPPING)
            handle.times.to_stop_by = time.monotonic() + self.grace_s
            self.table.stopping.append(handle)
            handle.host.stop(handle.incarnation)
        elif handle.state is not HandleState.ENDED:
            self.ended(handle)

    def ended(self, handle: TaskHandle) -> None:
        """Handle the end of a start that was let go, whether or not it was graceful."""
        handle.move(HandleState.ENDED)
        if handle in self.table.stopping:
            self.table.stopping.remove(handle)
        self._write_unassigned(handle)

    def abandon_late(self, now: float) -> None:
        """Abandon the starts whose time to stop is over."""
        for handle in [h for h in self.table.stopping if now >= h.times.to_stop_by]:
            self._abandon(handle)

    def lost(self, incarnations: Collection[str], reason: str) -> None:
        """Handle the loss of a process that ran these starts. The tasks that are wanted start again."""
        for handle in [h for h in self.table.stopping if h.incarnation in incarnations]:
            self._end_what_is_open(handle)
            self.ended(handle)
        for handle in [h for h in self.table.newest_among(incarnations) if h.is_live]:
            log.warning("task %s starts again: %s", handle.id, reason)
            handle.move(HandleState.ENDED)
            self.board.task(handle.id, State.RESTARTING, reason)  # readers prefer RUNNING to a later UNASSIGNED

    def lock_out(self, handle: TaskHandle) -> None:
        """End the transaction, or the membership, of a start that ended without a report, in another thread."""
        if handle.spec is not None and (handle.spec.is_sink or handle.spec.is_exactly_once):
            self.loop.submit(("lock out", handle.id.connector), self.fence.lock_out, handle.spec)

    def give_up(self, handle: TaskHandle) -> None:
        """Abandon a start that has failed although its thread has not ended.

        What it has open is ended here if no other start follows soon: readers would wait for its transaction.
        """
        neighbours = self._leave_behind(handle)
        if handle.again.plan is None or handle.again.plan.in_s is None:
            self.lock_out(handle)
        self._move(neighbours)

    def _abandon(self, handle: TaskHandle) -> None:
        log.warning(
            "task %s did not stop within task.shutdown.graceful.timeout.ms and is abandoned; the fence keeps it out",
            handle.id,
        )
        neighbours = self._leave_behind(handle)
        self._end_what_is_open(handle)
        self.ended(handle)
        self._move(neighbours)

    def _leave_behind(self, handle: TaskHandle) -> Collection[str]:
        """Let the host forget a start; returns those in the same process, which takes no others."""
        if handle.report is not None:
            self.totals.reported(replace(handle.report, state=RunState.ABANDONED))  # it reports nothing more
        return handle.host.abandon(handle.incarnation) if handle.host is not None else ()

    def _move(self, incarnations: Collection[str]) -> None:
        for neighbour in self.table.newest_among(incarnations):
            if neighbour.state is HandleState.HOSTED:
                self.let_go(neighbour)

    def _end_what_is_open(self, handle: TaskHandle) -> None:
        """Lock out a start that is not followed by another.

        If another start follows, that one does so; if none follows, all readers of the offsets topic would wait for the
        timeout of the transaction.
        """
        if not self.table.snapshot.has_task(handle.id) or self.table.target(handle.id) is TargetState.STOPPED:
            self.lock_out(handle)

    def _write_unassigned(self, handle: TaskHandle) -> None:
        """Write UNASSIGNED for a task without a start here, unless it is deleted, which the leader writes.

        It has the group generation of its start: with a later one it could hide the RUNNING of another owner.
        """
        if self.table.is_cut_off:
            return  # it would appear after the status of the task's next owner
        if handle.id not in self.table.newest and self.table.snapshot.has_task(handle.id):
            self.board.task(handle.id, State.UNASSIGNED, generation=handle.identity.assigned_in)
