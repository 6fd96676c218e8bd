"""One start of a task as the supervisor sees it: its states and the moves between them."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from fencepost.cluster.running import Start, running_on
from fencepost.storage.change import TargetState, TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.message import TaskReport
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.worker.supervision.automatic_restart import RestartSchedule
from fencepost.worker.supervision.port import TaskHost


class HandleState(Enum):
    """PREPARING: steps 1 to 4 of docs/architecture.md. WAITING: for a slot. HOSTED: a slot or a run has it."""

    PREPARING = "preparing"
    WAITING = "waiting"
    HOSTED = "hosted"
    STOPPING = "stopping"
    FAILED = "failed"
    ENDED = "ended"


_S = HandleState

LEGAL_MOVES: dict[HandleState, frozenset[HandleState]] = {
    _S.PREPARING: frozenset({_S.WAITING, _S.FAILED, _S.ENDED}),
    _S.WAITING: frozenset({_S.HOSTED, _S.FAILED, _S.ENDED}),
    _S.HOSTED: frozenset({_S.WAITING, _S.STOPPING, _S.FAILED, _S.ENDED}),  # WAITING: there was no room
    _S.STOPPING: frozenset({_S.ENDED}),
    _S.FAILED: frozenset({_S.ENDED}),
    _S.ENDED: frozenset(),
}


@dataclass(frozen=True)
class StartIdentity:
    """`generation` is the task generation, `assigned_in` the group generation in which the task was assigned here."""

    id: TaskId
    generation: int
    incarnation: str
    assigned_in: int = 0
    is_sink: bool = False


@dataclass
class StartTimes:
    """Monotonic times; 0 if it has not come to that. At `reload_at`, what its configs refer to has expired."""

    prepared: float = 0.0
    hosted: float = 0.0
    to_stop_by: float = math.inf
    reload_at: float = math.inf


@dataclass
class NextStart:
    """When the task starts again, or its host is asked again, and why not before.

    `plan` is the plan of its automatic restart, once it has failed. `is_said`: its status says that it waits, and why.
    """

    at: float = 0.0
    why: str = field(default="", repr=False)
    is_said: bool = False
    plan: RestartSchedule | None = None


@dataclass
class TaskHandle:
    """Owned by the supervisor's thread; other threads only read single fields."""

    identity: StartIdentity
    target: str
    state: HandleState = HandleState.PREPARING
    spec: TaskSpec | None = None
    host: TaskHost | None = None
    times: StartTimes = field(default_factory=StartTimes)
    again: NextStart = field(default_factory=NextStart)
    report: TaskReport | None = field(default=None, repr=False)

    @property
    def id(self) -> TaskId:
        return self.identity.id

    @property
    def generation(self) -> int:
        return self.identity.generation

    @property
    def incarnation(self) -> str:
        return self.identity.incarnation

    @property
    def start(self) -> Start:
        """Return the task and its generation."""
        return self.id, self.generation

    def move(self, target: HandleState) -> None:
        """Move to another state. Raises RuntimeError for a move that is not in the table, which is a bug."""
        if target not in LEGAL_MOVES[self.state]:
            raise RuntimeError(f"task {self.id} cannot go from {self.state.value} to {target.value}")
        self.state = target

    @property
    def is_live(self) -> bool:
        return self.state not in (HandleState.FAILED, HandleState.ENDED)


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
