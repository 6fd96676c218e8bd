"""What should run on this worker, and the starts that are here."""

from collections.abc import Collection
from dataclasses import dataclass, field

from fencepost.cluster.running import running_on
from fencepost.storage.ids import TargetState, TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.supervision.task.handle import TaskHandle


@dataclass
class TaskTable:
    """Owned by the supervisor's thread; other threads only read it.

    `newest` has the newest start of each task that is assigned here, `stopping` the earlier ones that have not ended.
    """

    incarnation: str
    snapshot: ClusterSnapshot = field(default_factory=ClusterSnapshot)
    is_cut_off: bool = False
    is_shutting_down: bool = False
    newest: dict[TaskId, TaskHandle] = field(default_factory=dict)
    stopping: list[TaskHandle] = field(default_factory=list)

    def wanted(self) -> dict[TaskId, int]:
        """Return the tasks that should run here, with their task generations."""
        return {} if self.is_shutting_down or self.is_cut_off else running_on(self.snapshot, self.incarnation)

    def target(self, task: TaskId) -> TargetState:
        return self.snapshot.target_state(task.connector)

    def is_newest(self, handle: TaskHandle) -> bool:
        return self.newest.get(handle.id) is handle

    def starts(self, task: TaskId) -> list[TaskHandle]:
        """Return the starts of a task: the newest, and a stopping one before it."""
        newest = self.newest.get(task)
        return [h for h in (newest, *self.stopping) if h is not None and h.id == task]

    def newest_among(self, incarnations: Collection[str]) -> list[TaskHandle]:
        return [h for h in self.newest.values() if h.incarnation in incarnations]
