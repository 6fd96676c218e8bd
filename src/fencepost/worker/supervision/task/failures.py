"""Failed starts of tasks: their statuses, their automatic restarts, and which one is to blame for a crash."""

import logging
import math
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from fencepost.cluster.running import Start
from fencepost.storage.ids import TargetState
from fencepost.storage.status_topic import State
from fencepost.telemetry.subject import fields_of
from fencepost.telemetry.traces import reason_first
from fencepost.worker.supervision.automatic_restart import AutomaticRestarts, RestartPolicy
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task.handle import HandleState, TaskHandle
from fencepost.worker.supervision.task.table import TaskTable
from fencepost.worker.supervision.task.trial import Trials, blame
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
        """Plan an automatic restart after a failure, if configured, and unless the task is paused."""
        target, now = self.table.target(handle.id), time.monotonic()
        policy = RestartPolicy.of(self.table.snapshot.connectors.get(handle.id.connector, {}))
        lived_s = now - handle.times.hosted if handle.times.hosted else 0.0
        is_paused = target is TargetState.PAUSED
        handle.target = target.value
        handle.again.plan = None if is_paused else self.restarts.failed(handle.start, policy, lived_s)
        in_s = None if handle.again.plan is None else handle.again.plan.in_s
        handle.again.at = math.inf if in_s is None else now + in_s
