"""The leader's care for tasks of lost workers: what they have left open is ended before they move."""

import logging
from collections.abc import Callable, Collection
from typing import Protocol

from fencepost.cluster.assignment import Member, lost_tasks
from fencepost.cluster.left_open import PendingFences
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)


class TransactionEnder(Protocol):
    """Ends open transactions of lost tasks."""

    def end(self, snapshot: ClusterSnapshot, tasks: Collection[TaskId]) -> PendingFences:
        """Begin to end them, and return at once."""


class LostTasks:
    """Used by the leader's thread."""

    def __init__(
        self,
        left_open: TransactionEnder,
        abandoned_tasks: Callable[[ClusterSnapshot, Collection[str]], set[TaskId]],
        delay_ms: int = 0,
    ) -> None:
        """`left_open` ends open transactions of a lost worker's tasks before they move, `delay_ms` later unless it
        returns. `abandoned_tasks` returns tasks that it should have ended, and that nobody gets."""
        self._left_open = left_open
        self._abandoned_tasks = abandoned_tasks
        self.delay_ms = delay_ms
        self._ending: PendingFences | None = None  # of lost tasks, until their worker is no longer counted

    def forget(self) -> None:
        """Fence tasks again that are lost, as another worker may have led in between."""
        self._ending = None

    def are_settled(self, snapshot: ClusterSnapshot, members: Collection[Member]) -> bool:
        """Return whether lost tasks may be reassigned: what they had open has been ended, as far as possible."""
        lost = lost_tasks(snapshot, members)
        if not lost:
            self._ending = None
            return True
        if self._ending is None or not self._ending.tasks.issuperset(lost):
            what = f"wait {self.delay_ms / 1000:g} s for it" if self.delay_ms else "move"
            log.warning("leader: tasks of a lost worker are fenced and %s: %s", what, _names(lost))
            self._ending = self._left_open.end(snapshot, lost)
        return self._ending.is_settled

    def end_abandoned(self, snapshot: ClusterSnapshot, members: Collection[Member]) -> None:
        """Begin to end what called-off tasks of dead workers have open; these tasks are assigned to nobody."""
        abandoned = self._abandoned_tasks(snapshot, {m.incarnation for m in members}) if members else set()
        if abandoned:
            log.warning("leader: fencing tasks that lost workers were to end: %s", _names(abandoned))
            self._left_open.end(snapshot, abandoned)


def _names(tasks: Collection[TaskId]) -> str:
    return ", ".join(map(str, sorted(tasks)))
