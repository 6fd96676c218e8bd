"""The assignment in records that grow with what changes: one for each worker, and one for each connector.

1. A holder's record names a process that gets work, or a lost one for which work waits.
2. A placement's record names the holders of a connector and of its tasks.
3. The head is written last and applies the others, as a commit record applies task configs: half an assignment is never
   acted on.

The key of the head is that of an older form, one record with everything. Workers that read only that form take the head
for an assignment without work. A cluster of both versions may change from one form to the other and back. So the newer
records name their series, which is the generation in which it began, and those of another series do not count.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from fencepost.storage import records
from fencepost.storage.change import Assignment, HeldBackWork, Holder, Placement, TaskId, WorkerAssignment

_Part = TypeVar("_Part", Holder, Placement)
_Shares = Mapping[Holder, WorkerAssignment]
_NOTHING = WorkerAssignment("", "")


def changes(before: Assignment | None, now: Assignment, *, is_read_by_older: bool = False) -> list[records.Encoded]:
    """Return the records that lead from one assignment to another; all of them where the series begins. Pure.

    If it `is_read_by_older` workers, the head names all workers: an older one reports which of its tasks have ended
    only while it reads there that it is one of several.
    """
    assert now.series is not None
    old = {} if before is None or before.series != now.series else _shares(before)
    new = _shares(now)
    moved: set[str] = set()
    for holder in old.keys() | new.keys():
        a, b = old.get(holder, _NOTHING), new.get(holder, _NOTHING)
        if a != b:
            moved.update(set(a.connectors).symmetric_difference(b.connectors))
            moved.update(task.connector for task in set(a.tasks).symmetric_difference(b.tasks))
    runs, tasks = _placed(new, moved)
    placed = runs.keys() | tasks.keys()
    return [
        *(records.holder(each, now.series) for each in new if each not in old),
        *(records.placement(name, runs.get(name), tasks.get(name, ()), now.series) for name in sorted(placed)),
        *(records.placement_removed(name) for name in sorted(moved - placed)),
        *(records.holder_removed(each) for each in old if each not in new),
        records.assignment_head(now.generation, now.series, now.workers if is_read_by_older else ()),
    ]


class AssignmentBuilder:
    """Folds the records of an assignment, in their order. Builds again only the shares that change. Not thread-safe."""

    def __init__(self, last: Assignment | None) -> None:
        self._last = last
        self._head: tuple[int, int] | None = None  # generation and series of a head that is newer than `_last`
        self._holders = {} if last is None else {each.id: each for each in _shares(last)}
        self._placements: Any = {} if last is None else last.placements  # a dict only while nobody else has it
        self._moved: set[str] = set()  # the connectors whose placements differ from those in `_last`
        self._deferred_holders: dict[str, tuple[int, Holder] | None] = {}
        self._deferred_placements: dict[str, tuple[int, Placement] | None] = {}

    def put(self, assignment: Assignment) -> None:
        """Take an assignment from a single record. Earlier records of the other form no longer count."""
        AssignmentBuilder.__init__(self, assignment)

    def defer_holder(self, id_: str, found: tuple[int, Holder] | None) -> None:
        """Keep a holder and its series, or its removal, until the head."""
        self._deferred_holders[id_] = found

    def defer_placement(self, connector: str, found: tuple[int, Placement] | None) -> None:
        """Keep a placement and its series, or its removal, until the head."""
        self._deferred_placements[connector] = found

    def commit(self, generation: int, series: int) -> None:
        """Apply what was deferred. A series that begins starts from nothing."""
        if series != self._series:
            self._holders, self._placements, self._moved = {}, {}, set()
        self._head = generation, series
        _merge(self._holders, self._deferred_holders, series)
        if self._deferred_placements:
            if not isinstance(self._placements, dict):
                self._placements = self._placements.copy()
            self._moved.update(self._deferred_placements)
            _merge(self._placements, self._deferred_placements, series)

    def freeze(self) -> Assignment | None:
        if self._head is None:
            return self._last
        generation, series = self._head
        before = self._last if self._last is not None and self._last.series == series else Assignment(0)
        shares = self._built(before)
        workers = [share for holder, share in shares.items() if holder.until_ms is None]
        waiting = [HeldBackWork(share, each.until_ms) for each, share in shares.items() if each.until_ms is not None]
        if isinstance(self._placements, dict):
            self._placements = MappingProxyType(self._placements)
        self._last = Assignment(
            generation,
            tuple(sorted(workers, key=lambda w: (w.url, w.incarnation))),
            in_order(waiting),
            series,
            self._placements,
        )
        self._head, self._moved = None, set()
        return self._last

    @property
    def _series(self) -> int | None:
        if self._head is not None:
            return self._head[1]
        return None if self._last is None else self._last.series

    def _built(self, before: Assignment) -> dict[Holder, WorkerAssignment]:
        gained: dict[str, tuple[list[str], list[TaskId]]] = defaultdict(lambda: ([], []))
        for name in self._moved:
            earlier, placement = before.placements.get(name), self._placements.get(name)
            for id_ in () if earlier is None else earlier.holders():
                gained[id_]  # has something to lose
            if placement is None:
                continue
            if placement.connector is not None:
                gained[placement.connector][0].append(name)
            for id_, numbers in placement.tasks.items():
                gained[id_][1].extend(TaskId(name, number) for number in numbers)
        old = _shares(before)
        return {holder: self._share(holder, old.get(holder), gained.get(id_)) for id_, holder in self._holders.items()}

    def _share(
        self, holder: Holder, before: WorkerAssignment | None, gained: tuple[list[str], list[TaskId]] | None
    ) -> WorkerAssignment:
        share = before or WorkerAssignment(holder.incarnation, holder.url)
        if gained is None:
            return share
        connectors = [name for name in share.connectors if name not in self._moved]
        tasks = [task for task in share.tasks if task.connector not in self._moved]
        return WorkerAssignment(
            holder.incarnation,
            holder.url,
            tuple(sorted(connectors + gained[0])),
            tuple(sorted(tasks + gained[1])),
        )


def in_order(waiting: Collection[HeldBackWork]) -> tuple[HeldBackWork, ...]:
    """Return these in the order in which an assignment has them."""
    return tuple(sorted(waiting, key=lambda w: (w.until_ms, w.worker.url, w.worker.incarnation)))


def _shares(assignment: Assignment) -> dict[Holder, WorkerAssignment]:
    return {
        **{Holder(w.incarnation, w.url): w for w in assignment.workers},
        **{Holder(w.worker.incarnation, w.worker.url, w.until_ms): w.worker for w in assignment.waiting},
    }


def _placed(shares: _Shares, connectors: Collection[str]) -> tuple[dict[str, str], dict[str, list[tuple[str, int]]]]:
    runs: dict[str, str] = {}
    tasks: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for holder, share in shares.items():
        id_ = holder.id
        runs.update((name, id_) for name in share.connectors if name in connectors)
        for name, number in share.tasks:
            if name in connectors:
                tasks[name].append((id_, number))
    return runs, tasks


def _merge(parts: "dict[str, _Part]", deferred: "dict[str, tuple[int, _Part] | None]", series: int) -> None:
    for key, found in deferred.items():
        if found is None:
            parts.pop(key, None)
        elif found[0] == series:
            parts[key] = found[1]
    deferred.clear()
