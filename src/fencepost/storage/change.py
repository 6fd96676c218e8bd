"""The values in the config topic with their ids, and the changes that a reader is notified of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple


class TaskId(NamedTuple):
    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class TargetState(Enum):
    """The state that a connector should be in."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Signs requests between workers (KIP-507). `key` is secret and stays out of `repr` (E11)."""

    key: bytes = field(repr=False)
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class WorkerAbilities:
    """What a worker says of itself: it has a place to run tasks; it reads an assignment of several records."""

    is_ready: bool = True
    reads_placements: bool = True


@dataclass(frozen=True, slots=True)
class WorkerAssignment:
    """The connectors and tasks that one incarnation of a worker runs."""

    incarnation: str
    url: str
    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldBackWork:
    """The work of a lost worker, which is not assigned to another before `until_ms` (Unix time)."""

    worker: WorkerAssignment
    until_ms: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has work, or for which work waits until `until_ms` (Unix time)."""

    incarnation: str
    url: str
    until_ms: int | None = None

    @property
    def id(self) -> str:
        """Return its name in records."""
        return self.incarnation if self.until_ms is None else f"{self.incarnation}/{self.until_ms}"


@dataclass(frozen=True, slots=True)
class Placement:
    """The holders, by id, of a connector and of the numbers of its tasks."""

    connector: str | None = None
    tasks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def holders(self) -> set[str]:
        return {*self.tasks, *([] if self.connector is None else [self.connector])}


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of work to workers. `waiting` runs nowhere.

    Attributes:
        generation: the number of the assignment.
        series: the generation in which the series of its records began; None: it is one record.
        placements: what its records say, by connector, if there are several.
    """

    generation: int
    workers: tuple[WorkerAssignment, ...] = ()
    waiting: tuple[HeldBackWork, ...] = ()
    series: int | None = None
    placements: Mapping[str, Placement] = field(default_factory=lambda: MappingProxyType({}), repr=False, compare=False)

    def of(self, incarnation: str) -> WorkerAssignment | None:
        return next((w for w in self.workers if w.incarnation == incarnation), None)


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """The stored facts about a topic whose committed records are deleted (KIP-762).

    Attributes:
        topic_id: distinguishes the topic from others with its name.
        deleted: for each partition, the offset below which records may be deleted at any time, or are already.
        inherited: offsets that groups committed in an older topic with this name, and have not committed since.
    """

    topic_id: str
    deleted: Mapping[int, int] = field(default_factory=dict)
    inherited: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectorConfigUpdated:
    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorConfigRemoved:
    connector: str


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """A target state changed. Its removal is not reported, because the connector's removal is."""

    connector: str
    state: TargetState


@dataclass(frozen=True, slots=True)
class TaskConfigsUpdated:
    """A commit record was read. The connector may still be inconsistent."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskCountRecorded:
    connector: str
    count: int


@dataclass(frozen=True, slots=True)
class SessionKeyUpdated:
    key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A restart request (KIP-745). It is a command, not a state: a worker ignores those from before its start."""

    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class LoggerLevelSet:
    """A change of a log level (KIP-976). It is a command, like `RestartRequested`."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class AssignmentChanged:
    generation: int


@dataclass(frozen=True, slots=True)
class TasksStopped:
    """The `tasks`, each with its task generation, have ended on this incarnation of a worker."""

    incarnation: str
    tasks: tuple[tuple[TaskId, int], ...]


Change = (
    ConnectorConfigUpdated
    | ConnectorConfigRemoved
    | TargetStateChanged
    | TaskConfigsUpdated
    | TaskCountRecorded
    | SessionKeyUpdated
    | RestartRequested
    | LoggerLevelSet
    | AssignmentChanged
    | TasksStopped
)
