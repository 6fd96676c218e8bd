"""What users ask about, and the answers: the values that the REST layer and the worker exchange.

Names are those of Kafka Connect's REST API (KIP-26, 745, 875, 980, 1004). A class that is a body in JSON describes
it to pydantic: fields in their order, their names where these differ, and what is left out if it is empty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field, PlainSerializer, WithJsonSchema

from fencepost.config.reference import RawConfig
from fencepost.storage.change import TaskId


@dataclass(frozen=True, slots=True)
class Place:
    """A part of the cluster for which one worker is responsible. Without connector and task: the leader's work."""

    connector: str | None = None
    task: int | None = None


LEADER = Place()


class InitialState(Enum):
    """The state that a new connector starts in (KIP-980)."""

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


def _one_of(*texts: str) -> WithJsonSchema:
    return WithJsonSchema({"enum": list(texts), "type": "string"})


def _omittable(description: str) -> Any:
    return Field(description=description, exclude_if=lambda value: not value)


def _moment(at_ms: int | None) -> str | None:
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_ALL_PRESENT = ConfigDict(json_schema_serialization_defaults_required=True)
_Text = Annotated[str | None, WithJsonSchema({"type": "string"})]
_Moment = Annotated[int | None, PlainSerializer(_moment, return_type=str | None)]
_Task = Annotated[
    TaskId,
    PlainSerializer(lambda task: task._asdict()),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {"connector": {"type": "string"}, "task": {"type": "integer"}},
            "required": ["connector", "task"],
        }
    ),
]
_State = Annotated[str, _one_of("UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING", "DESTROYED")]
_TRACE = _omittable("Only present when something failed, or there is a problem with what runs.")
_VERSION = _omittable("Only present when the plugin has one.")
_RESTART = _omittable("Only present where it has failed, and errors.restart.enabled is true.")


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """`version` is that of Kafka Connect whose API this is: clients such as kcctl refuse others."""

    version: str
    commit: str
    kafka_cluster_id: str
    fencepost_version: str


@dataclass(frozen=True, slots=True)
class KafkaInfo:
    """Where the worker's Kafka is, without credentials."""

    cluster_id: str
    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class Health:
    status: HealthStatus
    message: str


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """`offsets_status` is the result of storing `initial_offsets` (KIP-995)."""

    name: str
    config: Annotated[RawConfig, Field(description="As it was given: variables of config providers are not resolved.")]
    tasks: Sequence[_Task]
    type: ConnectorType
    offsets_status: Annotated[_Text, _omittable("Only present where initial_offsets were given.")] = None


class ConnectorOffset(NamedTuple):
    """A source partition and its offset; an offset of None is missing, or is to be forgotten."""

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class TaskInfo:
    id: _Task
    config: RawConfig


@dataclass(frozen=True, slots=True)
class RestartInfo:
    """Automatic restarts after a failure."""

    attempts: Annotated[int, Field(description="Automatic restarts in a row so far.")]
    next_ms: Annotated[
        _Moment, Field(alias="next", description="When the next is due (ISO 8601, UTC); null: no other is made.")
    ]


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """State of the connector itself."""

    state: _State
    worker_id: str
    trace: Annotated[_Text, _TRACE] = None
    version: Annotated[_Text, _VERSION] = None
    restart: Annotated[RestartInfo | None, _RESTART] = None


@dataclass(frozen=True, slots=True)
class TaskState:
    id: int
    state: _State
    worker_id: str
    trace: Annotated[_Text, _TRACE] = None
    version: Annotated[_Text, _VERSION] = None
    restart: Annotated[RestartInfo | None, _RESTART] = None


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """`tasks` are sorted by number."""

    name: str
    connector: ConnectorState
    tasks: Sequence[TaskState]
    type: ConnectorType

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", sorted(self.tasks, key=lambda task: task.id))


@dataclass(frozen=True, slots=True)
class KeyWarning:
    """A key that nothing reads, and that looks like a typo."""

    name: str
    message: str


class StoredConnector(NamedTuple):
    """A connector whose config was stored; after a PUT or PATCH, `info.tasks` are the tasks known before the change."""

    created: bool
    info: ConnectorInfo
    warnings: Sequence[KeyWarning] = ()


@dataclass(frozen=True, slots=True)
class PluginInfo:
    class_name: Annotated[str, Field(alias="class")]
    type: Annotated[str, _one_of("source", "sink", "transformation", "predicate", "converter", "header_converter")]
    version: Annotated[_Text, _VERSION] = None


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """One declared config key."""

    name: str
    type: Annotated[str, _one_of("BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")]
    required: bool
    default_value: str | None
    importance: Annotated[str, _one_of("HIGH", "MEDIUM", "LOW")]
    documentation: str
    group: str | None
    order_in_group: int
    width: Annotated[str, _one_of("NONE", "SHORT", "MEDIUM", "LONG")]
    display_name: str
    dependents: Sequence[str]


@dataclass(frozen=True, slots=True)
class KeyValue:
    """What validation says of one key's value."""

    __pydantic_config__ = _ALL_PRESENT

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
    warnings: Annotated[
        Sequence[KeyWarning], _omittable("Only present where keys look like typos; they are not errors.")
    ] = ()


@dataclass(frozen=True, slots=True)
class PartitionRetention:
    """Where the log of a partition begins and ends, and up to where it may be emptied."""

    partition: int
    start: Annotated[int, Field(description="Where its log began at the time of the decision.")]
    end: int
    until: Annotated[int, Field(description="Up to where, exclusive, records may go; its start if none may.")]
    held_by: Annotated[
        str,
        PlainSerializer(lambda text: text or None, return_type=str | None),
        Field(description="What keeps it from going further; null: nothing, all of it may go."),
    ]

    @property
    def records(self) -> int:
        """Return the number of offsets that would be deleted."""
        return max(0, self.until - self.start)


@dataclass(frozen=True, slots=True)
class TopicRetentionInfo:
    """The last decision on a topic that may be emptied (KIP-762)."""

    topic: str
    refusal: Annotated[str | None, Field(alias="refused", description="Why nothing of the topic goes; null: it may.")]
    error: Annotated[
        str | None, Field(description="Kafka's answer to the last deletion if it failed; null: it succeeded.")
    ]
    deleted: Annotated[int, Field(description="Offsets that this leader has had deleted.")]
    deleted_ms: Annotated[
        _Moment, Field(alias="last_deletion", description="When it last did so (ISO 8601, UTC); null: never.")
    ]
    partitions: Sequence[PartitionRetention]


@dataclass(frozen=True, slots=True)
class RetentionInfo:
    """What the leader decided last, or would decide now."""

    __pydantic_config__ = _ALL_PRESENT

    is_enabled: Annotated[bool, Field(alias="enabled", description="delete.committed.enabled of the leader.")]
    decided_ms: Annotated[_Moment, Field(alias="decided", description="When (ISO 8601, UTC); null: not yet.")] = None
    error: Annotated[str | None, Field(description="Why the last decision failed; null: it did not.")] = None
    requests: Annotated[
        int, Field(description="Questions to Kafka that it took, each one request to every broker at most.")
    ] = 0
    topics: Sequence[TopicRetentionInfo] = ()


@dataclass(frozen=True, slots=True)
class LineageEnd:
    """A topic, a pattern of topics of which none is known yet, or something outside of Kafka."""

    __pydantic_config__ = ConfigDict(json_schema_serialization_defaults_required=True)

    type: Annotated[str, WithJsonSchema({"enum": ["topic", "pattern", "external"], "type": "string"})]
    name: Annotated[str, Field(description="Of something external: a path, a URL, or a system and its address.")]
    cluster: Annotated[
        str | None, Field(description="The alias of the Kafka cluster, of mirrors; null: that of the workers.")
    ] = None


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a connector reads and writes."""

    name: str
    kind: Annotated[str, WithJsonSchema({"enum": ["source", "sink", "stream", "mirror", "unknown"], "type": "string"})]
    reads: Sequence[LineageEnd]
    writes: Sequence[LineageEnd]
