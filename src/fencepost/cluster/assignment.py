"""Assigns connectors and tasks to workers: a pure function of members, connectors and the previous assignment."""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fencepost.storage.assigned import in_order
from fencepost.storage.change import Assignment, HeldBackWork, WorkerAssignment
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot

T = TypeVar("T", str, TaskId)


@dataclass(frozen=True, order=True)
class Member:
    """A worker process of the group. `incarnation` identifies the process; `url` is its REST address.

    `is_ready` says that it can run tasks, `reads_placements` that it reads an assignment of several records.
    """

    url: str
    incarnation: str
    is_ready: bool = True
    reads_placements: bool = True


def assign(
    members: Sequence[Member],
    connectors: Mapping[str, Sequence[TaskId]],
    previous: Assignment | None,
    generation: int,
    waiting: tuple[HeldBackWork, ...] = (),
) -> Assignment:
    """Spread connectors and their tasks evenly, except for what is `waiting`, and move as little as possible.

    Connectors and tasks are balanced separately. A worker that is back at the same URL with another incarnation gets
    what it had. Workers that are not ready get tasks only if no worker is ready.
    """
    ready = [m for m in members if m.is_ready] or list(members)
    absent_connectors = {name for each in waiting for name in each.worker.connectors}
    absent_tasks = {task for each in waiting for task in each.worker.tasks}
    here = [name for name in connectors if name not in absent_connectors]
    own_connectors = _spread(members, here, _held(previous, members, lambda w: w.connectors))
    tasks = [task for ids in connectors.values() for task in ids if task not in absent_tasks]
    own_tasks = _spread(ready, tasks, _held(previous, ready, lambda w: w.tasks))
    workers = tuple(
        WorkerAssignment(m.incarnation, m.url, tuple(sorted(own_connectors[m])), tuple(sorted(own_tasks.get(m, ()))))
        for m in sorted(members)
    )
    return Assignment(generation, workers, in_order(waiting))


def wanted(snapshot: ClusterSnapshot) -> dict[str, tuple[TaskId, ...]]:
    """Return everything to assign: every connector, with its tasks."""
    return {name: snapshot.tasks(name) for name in snapshot.connectors}


def lost_tasks(snapshot: ClusterSnapshot, members: Iterable[Member]) -> set[TaskId]:
    """Return the tasks of workers that have left without an announcement. They may still be writing. Pure.

    Tasks of a worker that was replaced by a new process at its address are not included: that process fences them.
    """
    if snapshot.assignment is None:
        return set()
    urls = {m.url for m in members}
    return {
        task
        for worker in snapshot.assignment.workers
        if urls and worker.url not in urls and snapshot.incarnations.get(worker.url) == worker.incarnation
        for task in worker.tasks
        if snapshot.has_task(task)
    }


def kept_back(
    snapshot: ClusterSnapshot, members: Sequence[Member], delay_ms: int, now_ms: int
) -> tuple[HeldBackWork, ...]:
    """Return the work that is kept for lost workers until they are back or `delay_ms` have passed. Pure.

    A worker that is back but not ready gets its connectors again, and its tasks continue to wait.
    """
    before = snapshot.assignment
    if before is None or not members or not delay_ms:
        return ()
    present, ready = {m.url for m in members}, {m.url for m in members if m.is_ready}
    alive = {m.incarnation for m in members}
    gone = (HeldBackWork(w, now_ms + delay_ms) for w in before.workers if w.incarnation not in alive)
    kept = (
        HeldBackWork(_left_over(each.worker, snapshot, has_connectors=each.worker.url not in present), each.until_ms)
        for each in (*before.waiting, *gone)
        if each.until_ms > now_ms and each.worker.url not in ready and each.worker.url in snapshot.incarnations
    )
    return tuple(each for each in kept if each.worker.connectors or each.worker.tasks)


def same_work(a: Assignment | None, b: Assignment) -> bool:
    """Say whether two assignments in the same form differ at most in their generation."""
    is_same_form = a is not None and (a.series is None) == (b.series is None)
    return a is not None and is_same_form and (a.workers, a.waiting) == (b.workers, b.waiting)


def _left_over(worker: WorkerAssignment, snapshot: ClusterSnapshot, *, has_connectors: bool) -> WorkerAssignment:
    """Return a worker's share without anything deleted since, and without connectors unless `has_connectors`."""
    connectors = worker.connectors if has_connectors else ()
    return replace(
        worker,
        connectors=tuple(name for name in connectors if name in snapshot.connectors),
        tasks=tuple(task for task in worker.tasks if snapshot.has_task(task)),
    )


def _held(
    previous: Assignment | None, members: Iterable[Member], of: Callable[[WorkerAssignment], Iterable[T]]
) -> dict[T, Member]:
    by_incarnation = {m.incarnation: m for m in members}
    by_url = {m.url: m for m in members}
    held: dict[T, Member] = {}
    for worker in _earlier(previous):
        member = by_incarnation.get(worker.incarnation) or by_url.get(worker.url)
        if member is not None:
            for item in of(worker):
                held[item] = member
    return held


def _earlier(previous: Assignment | None) -> list[WorkerAssignment]:
    if previous is None:
        return []
    return [*previous.workers, *(each.worker for each in previous.waiting)]


def _spread(members: Sequence[Member], items: Iterable[T], held: Mapping[T, Member]) -> dict[Member, list[T]]:
    """Let each member keep up to a fair share of what it holds. The rest goes to the members with the least."""
    items = list(items)
    own: dict[Member, list[T]] = {m: [] for m in members}
    if not members:
        return own
    share, larger_shares = divmod(len(items), len(members))
    rest = []
    for item in items:
        member = held.get(item)
        if member is not None and len(own[member]) < share:
            own[member].append(item)
        elif member is not None and len(own[member]) == share and larger_shares:
            own[member].append(item)
            larger_shares -= 1
        else:
            rest.append(item)
    least = [(len(own[m]), m) for m in members]
    heapq.heapify(least)
    for item in rest:
        count, member = least[0]
        own[member].append(item)
        heapq.heapreplace(least, (count + 1, member))
    return own
