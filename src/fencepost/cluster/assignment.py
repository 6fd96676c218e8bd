"""Assigns connectors and tasks to workers: a pure function of members, connectors and the previous assignment."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from fencepost.storage.assigned import in_order
from fencepost.storage.change import Assignment, HeldBackWork, TaskId, WorkerAssignment
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
    connectors: Mapping[str, int],
    previous: Assignment | None,
    generation: int,
    waiting: tuple[HeldBackWork, ...] = (),
) -> Assignment:
    """Spread connectors and their tasks evenly, except for what is `waiting`, and move as little as possible.

    `connectors` has the number of tasks of each. Connectors and tasks are balanced separately. A worker that is back at
    the same URL with another incarnation gets what it had. Workers that are not ready get tasks only if none is ready.
    """
    ready = [m for m in members if m.is_ready] or list(members)
    away = {name for each in waiting for name in each.worker.connectors}
    held = _held(previous, members, lambda w: w.connectors, lambda name: name in connectors and name not in away)
    known = {name for names in held.values() for name in names} | away
    own_connectors = _spread(members, held, [name for name in connectors if name not in known])

    tasks_away = {task for each in waiting for task in each.worker.tasks}
    own = _held(
        previous,
        ready,
        lambda w: w.tasks,
        lambda t: 0 <= t.task < connectors.get(t.connector, 0) and t not in tasks_away,
    )
    own_tasks = _spread(ready, own, _missing(connectors, own.values(), tasks_away))
    workers = tuple(
        WorkerAssignment(m.incarnation, m.url, tuple(sorted(own_connectors[m])), tuple(sorted(own_tasks.get(m, ()))))
        for m in sorted(members)
    )
    return Assignment(generation, workers, in_order(waiting))


def wanted(snapshot: ClusterSnapshot) -> dict[str, int]:
    """Return everything to assign: every connector, with the number of its tasks."""
    counts, unusable = snapshot.task_counts, snapshot.inconsistent
    return {name: 0 if name in unusable else counts.get(name, 0) for name in snapshot.connectors}


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
        HeldBackWork(
            _left_over(each.worker, snapshot, has_connectors=each.worker.url not in present),
            min(each.until_ms, now_ms + delay_ms),  # the clock of the leader that wrote it may be ahead of this one
        )
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
    previous: Assignment | None,
    members: Iterable[Member],
    of: Callable[[WorkerAssignment], Iterable[T]],
    is_wanted: Callable[[T], bool],
) -> dict[Member, list[T]]:
    by_incarnation = {m.incarnation: m for m in members}
    by_url = {m.url: m for m in members}
    held: dict[Member, list[T]] = {m: [] for m in by_incarnation.values()}
    for worker in [] if previous is None else _earlier(previous):
        member = by_incarnation.get(worker.incarnation) or by_url.get(worker.url)
        if member is not None:
            held[member] += filter(is_wanted, of(worker))
    return held


def _earlier(previous: Assignment) -> list[WorkerAssignment]:
    return [*previous.workers, *(each.worker for each in previous.waiting)]


def _missing(counts: Mapping[str, int], held: Iterable[list[TaskId]], away: Collection[TaskId]) -> list[TaskId]:
    """Return the tasks that no member has. Only connectors that lack some are looked at task by task."""
    found = Counter(task.connector for tasks in (*held, away) for task in tasks)
    incomplete = {name: most for name, most in counts.items() if found[name] != most}
    if not incomplete:
        return []
    there = {task for tasks in (*held, away) for task in tasks if task.connector in incomplete}
    every = ((name, number) for name, most in incomplete.items() for number in range(most))
    return [TaskId(*each) for each in every if each not in there]


def _spread(members: Sequence[Member], held: Mapping[Member, list[T]], rest: list[T]) -> dict[Member, list[T]]:
    """Let each member keep up to a fair share of what it holds. The rest goes to the members with the least."""
    own: dict[Member, list[T]] = {m: [] for m in members}
    if not members:
        return own
    share, larger_shares = divmod(sum(map(len, held.values())) + len(rest), len(members))
    ranked = sorted(members)
    for member in ranked:
        has = held[member]
        most = share + (1 if larger_shares and len(has) > share else 0)
        larger_shares -= most - share
        own[member] = has[:most]
        rest += has[most:]
    for item, smallest in zip(rest, _in_turn([own[member] for member in ranked]), strict=False):
        smallest.append(item)
    return own


def _in_turn(shares: Sequence[list[T]]) -> Iterator[list[T]]:
    """Yield one of the smallest shares each time, without end. The caller adds an item to each before the next."""
    for level in count(min(map(len, shares))):
        for share in shares:
            if len(share) == level:
                yield share
