"""The one rule for what should run where, according to the config topic. Pure."""

from collections.abc import Collection

from fencepost.storage.ids import TargetState, TaskId
from fencepost.storage.snapshot import ClusterSnapshot

Start = tuple[TaskId, int]
"""A task and its task generation."""


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
    """Return why a task should run on no worker at all; None if it may run."""
    if task.connector not in snapshot.connectors:
        return f"connector {task.connector} was deleted"
    if not snapshot.has_task(task):
        return _newer(task.connector)
    if snapshot.target_state(task.connector) is TargetState.STOPPED:
        return f"connector {task.connector} was stopped"
    return None


def _newer(connector: str) -> str:
    return f"connector {connector} has already generated a new set of task configs"
