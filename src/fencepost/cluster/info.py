"""What users ask about, and what they are answered: the values that the REST layer and the worker exchange.

Names are those of Kafka Connect's REST API (KIP-26, 745, 875, 980, 1004).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from fencepost.config.raw import RawConfig
from fencepost.storage.ids import TaskId


@dataclass(frozen=True, slots=True)
class Place:
    """A part of the cluster that one worker is responsible for; with neither of both: what the leader does."""

    connector: str | None = None
    task: int | None = None


LEADER = Place()


class InitialState(Enum):
    """What a new connector is told to be (KIP-980)."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class ConnectorType(Enum):
    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"


class HealthStatus(Enum):
    HEALTHY = "healthy"
    STARTING = "starting"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    version: str
    commit: str
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class Health:
    status: HealthStatus
    message: str


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """`offsets_status` says what became of `initial_offsets` where some were given (KIP-995)."""

    name: str
    config: RawConfig
    tasks: Sequence[TaskId]
    type: ConnectorType
    offsets_status: str | None = None


class ConnectorOffset(NamedTuple):
    """A source partition and its offset; None as an offset is none, or forgets it."""

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class TaskInfo:
    id: TaskId
    config: RawConfig


@dataclass(frozen=True, slots=True)
class RestartInfo:
    """Automatic restarts of what has failed: how many in a row so far; when the next is due (Unix time), if it is."""

    attempts: int
    next_ms: int | None


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """State of the connector itself: UNASSIGNED, RUNNING, PAUSED, STOPPED, FAILED or RESTARTING."""

    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None
    restart: RestartInfo | None = None


@dataclass(frozen=True, slots=True)
class TaskState:
    id: int
    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None
    restart: RestartInfo | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    name: str
    connector: ConnectorState
    tasks: Sequence[TaskState]
    type: ConnectorType


class StoredConnector(NamedTuple):
    """Answer to a PUT of a config; `info.tasks` are the tasks known before the change."""

    created: bool
    info: ConnectorInfo


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """`type` is source, sink, transformation, predicate, converter or header_converter."""

    class_name: str
    type: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """One declared config key; `default_value` is rendered as a string, `type` as BOOLEAN, STRING, …"""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None = None
    order_in_group: int = -1
    width: str = "NONE"
    display_name: str | None = None
    dependents: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class KeyValue:
    """What validation says of one key's value."""

    name: str
    value: str | None
    recommended_values: Sequence[str] = ()
    errors: Sequence[str] = ()
    visible: bool = True


@dataclass(frozen=True, slots=True)
class KeyReport:
    """A key with its value; `definition` is None for an undeclared key that has errors."""

    definition: KeyDefinition | None
    value: KeyValue


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """`name` is the `connector.class` as it was given; `error_count` counts the errors of all values."""

    name: str
    error_count: int
    groups: Sequence[str]
    configs: Sequence[KeyReport]


@dataclass(frozen=True, slots=True)
class PartitionRetention:
    """One partition: where its log begins and ends, up to where (exclusive) it may be emptied, what holds it there.

    `until` is `start` where nothing of it may go.
    """

    partition: int
    start: int
    end: int
    until: int
    held_by: str

    @property
    def records(self) -> int:
        """Return how many offsets would go."""
        return max(0, self.until - self.start)


@dataclass(frozen=True, slots=True)
class TopicRetentionInfo:
    """What was decided last of a topic that may be emptied (KIP-762).

    Attributes:
        refusal: why nothing of it goes; None: it may.
        error: what Kafka answered last when it was to be deleted; None: it was.
        deleted: how many offsets this leader has had deleted; `deleted_ms`: when last, None: never.
    """

    topic: str
    refusal: str | None
    error: str | None
    partitions: Sequence[PartitionRetention]
    deleted: int
    deleted_ms: int | None


@dataclass(frozen=True, slots=True)
class RetentionInfo:
    """What the leader decided last, at `decided_ms`, or would decide now; `error` says why it could not.

    `requests` is how many questions it asked Kafka for that, each one request to every broker at most.
    """

    is_enabled: bool
    decided_ms: int | None
    error: str | None
    topics: Sequence[TopicRetentionInfo]
    requests: int = 0
