"""The one rule for what should run where, according to the config topic, and what has to end before it."""

import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fencepost.storage.change import TargetState, TaskId
from fencepost.storage.snapshot import ClusterSnapshot

Start = tuple[TaskId, int]
"""A task and its task generation."""
_MARGIN_S = 0.5


def running(snapshot: ClusterSnapshot, of: Collection[str] | None = None) -> dict[Start, str]:
    """Return the starts that should run, each with the incarnation of its worker; with `of`, of those connectors."""
    workers = snapshot.assignment.workers if snapshot.assignment is not None else ()
    return {
        (task, snapshot.commit_offsets[task.connector]): worker.incarnation
        for worker in workers
        for task in worker.tasks
        if (of is None or task.connector in of) and _obstacle(snapshot, task) is None
    }


def changed(old: ClusterSnapshot, new: ClusterSnapshot) -> set[str]:
    """Return the connectors of which other starts may be running, which is quicker than to compare all starts."""
    found: set[str] = set()
    for part in ("commit_offsets", "connectors", "target_states"):
        before, after = getattr(old, part), getattr(new, part)
        if before is not after:
            found.update(name for name in before.keys() | after.keys() if before.get(name) is not after.get(name))
    earlier, later = _tasks(old), _tasks(new)
    for incarnation in earlier.keys() | later.keys():
        had, has = earlier.get(incarnation, ()), later.get(incarnation, ())
        if had is not has:
            found.update(task.connector for task in set(had).symmetric_difference(has))
    return found


def _tasks(snapshot: ClusterSnapshot) -> dict[str, tuple[TaskId, ...]]:
    workers = snapshot.assignment.workers if snapshot.assignment is not None else ()
    return {worker.incarnation: worker.tasks for worker in workers}


def running_on(snapshot: ClusterSnapshot, incarnation: str) -> dict[TaskId, int]:
    """Return the tasks that should run on one worker, with their task generations."""
    mine = snapshot.assigned_to(incarnation)
    tasks = mine.tasks if mine is not None else ()
    return {t: snapshot.commit_offsets[t.connector] for t in tasks if _obstacle(snapshot, t) is None}


def why_not(snapshot: ClusterSnapshot, start: Start, incarnation: str) -> str | None:
    """Return why a start should not, or no longer, run on a worker; None if it should."""
    task, generation = start
    obstacle = _obstacle(snapshot, task)
    if obstacle is not None:
        return obstacle
    if snapshot.commit_offsets[task.connector] != generation:
        return _newer(task.connector)
    mine = snapshot.assigned_to(incarnation)
    if mine is None or task not in mine.tasks:
        return f"task {task} has already been revoked from this worker"
    return None


def _obstacle(snapshot: ClusterSnapshot, task: TaskId) -> str | None:
    if task.connector not in snapshot.connectors:
        return f"connector {task.connector} was deleted"
    if not snapshot.has_task(task):
        return _newer(task.connector)
    if snapshot.target_state(task.connector) is TargetState.STOPPED:
        return f"connector {task.connector} was stopped"
    return None


def _newer(connector: str) -> str:
    return f"connector {connector} has already generated a new set of task configs"


@dataclass(frozen=True)
class Departure:
    """A start that `incarnation` has to end. It was called off at `offset` of the config topic."""

    start: Start
    incarnation: str
    offset: int
    deadline: float


class Departures:
    """The starts of tasks that were called off and have not been reported as ended. Thread-safe.

    A new assignment or new task configs call off starts on several workers at once. Each worker stops its own, all
    together, and announces that in the config topic. The worker that starts a successor waits for the announcement, for
    as long as a task may take to stop (KIP-618, "preparation for rebalance"). After that, the fence keeps out tasks
    that still run. All workers read the same topic, so each has the same list, even one that becomes the leader in the
    meantime.
    """

    def __init__(self, grace_s: float, now: Callable[[], float] = time.monotonic) -> None:
        """`grace_s` is how long a task may take to stop (`task.shutdown.graceful.timeout.ms`)."""
        self._grace_s = grace_s + _MARGIN_S
        self._now = now
        self._changed = threading.Condition()
        self._pending: dict[tuple[Start, str], Departure] = {}
        self._unsaid: set[tuple[Start, str]] = set()

    def changed(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        """Record the starts that `new` calls off.

        Workers that are no longer in its assignment are not waited for: either they are dead and fenced, or they ended
        their tasks before they left.
        """
        parts = ("assignment", "commit_offsets", "connectors", "target_states")
        if all(getattr(old, part) is getattr(new, part) for part in parts):
            return
        moved = changed(old, new)
        before, after = running(old, moved), running(new, moved)
        alive = {worker.incarnation for worker in new.assignment.workers} if new.assignment else set()
        with self._changed:
            deadline = self._now() + self._grace_s
            for start, incarnation in before.items():
                if after.get(start) != incarnation:
                    self._pending[start, incarnation] = Departure(start, incarnation, new.offset, deadline)
                    self._unsaid.add((start, incarnation))
            for start, incarnation in after.items():
                self._pending.pop((start, incarnation), None)  # it may continue
                self._unsaid.discard((start, incarnation))
            self._pending = {key: d for key, d in self._pending.items() if d.incarnation in alive}
            self._changed.notify_all()

    def ended(self, incarnation: str, starts: Iterable[Start]) -> None:
        """Record that the worker `incarnation` no longer runs these starts."""
        with self._changed:
            for start in starts:
                self._pending.pop((start, incarnation), None)
                self._unsaid.discard((start, incarnation))
            self._changed.notify_all()

    def abandoned_tasks(self, snapshot: ClusterSnapshot, alive: Collection[str]) -> set[TaskId]:
        """Return the called-off tasks of dead workers that have no successor. Each task is returned only once.

        The workers died before they announced the end of these tasks, so transactions may be open. A successor would
        fence them. Without one, every reader of the offsets topic would wait until the transaction times out.
        """
        with self._changed:
            gone = {(start, incarnation) for start, incarnation in self._unsaid if incarnation not in alive}
            self._unsaid -= gone
        if not gone:
            return set()
        followed = {start[0] for start in running(snapshot)}
        return {start[0] for start, _ in gone} - followed

    def of(self, incarnation: str, offset: int) -> list[Start]:
        """Return the starts that a worker has to end, if it has read the config topic up to `offset`."""
        with self._changed:
            return [d.start for d in self._pending.values() if d.incarnation == incarnation and d.offset <= offset]

    def blocks(self, task: TaskId, generation: int, but: str) -> bool:
        """Say whether the start of a task has to wait for a worker other than `but`.

        That is so if the worker still has to end the same task, or a task of the connector from another generation,
        which the round of fencing would cut off.
        """
        with self._changed:
            return any(
                d.start[0] == task or (d.start[0].connector == task.connector and d.start[1] != generation)
                for d in self._live()
                if d.incarnation != but
            )

    def wait_for(self, connector: str, generation: int | None) -> None:
        """Wait until all tasks of the connector's other generations have ended, or their time is up."""
        with self._changed:
            while left := [d for d in self._live() if d.start[0].connector == connector and d.start[1] != generation]:
                self._changed.wait(max(0.01, max(d.deadline for d in left) - self._now()))

    def _live(self) -> list[Departure]:
        now = self._now()
        self._pending = {key: d for key, d in self._pending.items() if d.deadline > now}
        return list(self._pending.values())
