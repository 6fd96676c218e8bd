"""Lists the starts of tasks that were called off and have not been reported as ended. Their successors wait for them.

A new assignment or new task configs call off starts on several workers at once. Each worker stops its own, all
together, and announces that in the config topic. The worker that starts a successor waits for the announcement, for as
long as a task may take to stop (KIP-618, "preparation for rebalance"). After that, the fence keeps out tasks that still
run. All workers read the same topic, so each has the same list, even one that becomes the leader in the meantime.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fencepost.cluster.running import Start, changed, running
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot

_MARGIN_S = 0.5


@dataclass(frozen=True)
class Departure:
    """A start that `incarnation` has to end. It was called off at `offset` of the config topic."""

    start: Start
    incarnation: str
    offset: int
    deadline: float


class Departures:
    """The list of departures. Thread-safe."""

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
