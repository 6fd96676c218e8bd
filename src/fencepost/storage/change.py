"""Values that the config topic carries, and what a reader is told when one of them changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.storage.ids import TargetState, TaskId


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Signs requests between workers (KIP-507). `key` is secret and stays out of `repr` (E11)."""

    key: bytes = field(repr=False)
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class WorkerAssignment:
    """What one incarnation of a worker runs."""

    incarnation: str
    url: str
    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a lost worker had, and nobody else gets before `until_ms` (Unix time)."""

    worker: WorkerAssignment
    until_ms: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who runs what, as the leader of `generation` (a group generation) decided; `waiting` runs nowhere."""

    generation: int
    workers: tuple[WorkerAssignment, ...] = ()
    waiting: tuple[Waiting, ...] = ()

    def of(self, incarnation: str) -> WorkerAssignment | None:
        return next((w for w in self.workers if w.incarnation == incarnation), None)


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """What is remembered of a topic that sinks' commits empty (KIP-762).

    Attributes:
        topic_id: which topic of the name it is of.
        deleted: up to which offset, of each partition, records are given up, whether or not they are gone yet.
        inherited: what groups had committed of an older topic of the name, where they have not committed since.
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
    """Not reported when the record goes: the removal of the connector says that."""

    connector: str
    state: TargetState


@dataclass(frozen=True, slots=True)
class TaskConfigsUpdated:
    """A commit record was read; the connector may still be inconsistent."""

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
    """KIP-745. An order, not a state: what was asked before a worker started does not concern it."""

    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class LoggerLevelSet:
    """KIP-976. An order like `RestartRequested`."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class AssignmentChanged:
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class TasksStopped:
    """`tasks` of the given task generations have ended on the worker of this incarnation."""

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
