"""The end of a start of a task: it is stopped, abandoned, or lost with its process."""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from fencepost.storage.ids import TargetState
from fencepost.storage.status_topic import State
from fencepost.task.channel.message import RunState
from fencepost.worker.supervision.port import StartFence
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task.event_loop import EventLoop
from fencepost.worker.supervision.task.handle import HandleState, TaskHandle
from fencepost.worker.supervision.task.table import TaskTable
from fencepost.worker.supervision.task_metrics import TaskTotals

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endings:
    """Used by the supervisor's thread. `grace_s` is how long a task may take to stop."""

    table: TaskTable
    board: StatusBoard
    totals: TaskTotals
    loop: EventLoop
    fence: StartFence
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
        """Let starts go, so that their tasks start elsewhere."""
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
