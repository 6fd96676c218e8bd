"""The port between the REST layer and the worker: what a user may ask, what is answered, how it is refused.

The REST layer calls a `ConnectOperations` and turns answers and errors into HTTP; it never looks at a topic,
a lock or Spark. Names and texts are those of Kafka Connect's REST API (KIP-26, 745, 875, 980, 1004).

Configs are raw: config-provider variables stay unresolved, and a value may be None, which validation refuses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

RawConfig = Mapping[str, str | None]


class OperationError(Exception):
    """A request that was refused or failed; `message` is shown to the user as it stands."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFoundError(OperationError):
    """There is no such connector, task or plugin."""


class AlreadyExistsError(OperationError):
    """A connector of that name exists already."""


class BadRequestError(OperationError):
    """The request can never succeed as it stands: invalid config, wrong state, missing signature."""


class ConflictError(OperationError):
    """A rebalance or a reconfiguration is under way and outlasted the request; ask again."""


class NothingToAlterError(BadRequestError):
    """Offsets are to be altered, and none are named."""

    def __init__(self) -> None:
        super().__init__("Partitions / offsets need to be provided for an alter offsets request")


class ForbiddenError(OperationError):
    """The feature is switched off, or an internal request is signed with another key."""


class NotLeadingError(ConflictError):
    """This worker does not lead, or no more: certainly nothing was changed. Ask whoever leads."""

    TEXT = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."

    def __init__(self) -> None:
        super().__init__(self.TEXT)


@dataclass(frozen=True, slots=True)
class Place:
    """A part of the cluster that one worker is responsible for; with neither of both: what the leader does."""

    connector: str | None = None
    task: int | None = None


LEADER = Place()


class ElsewhereError(OperationError):
    """Another worker has to answer: the one at `url`, which is where `place` was when this was raised.

    The REST layer passes the request on, at most twice.
    """

    TEXT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"

    def __init__(self, place: Place, url: str) -> None:
        super().__init__(self.TEXT)
        self.place = place
        self.url = url


class FencingRefusedError(OperationError):
    """Kafka refuses a round of fencing, for a reason that does not pass: the message is the leader's trace."""


class WriteFailedError(OperationError):
    """What the leader was to write is not, or not certainly, in the config topic; the cause may pass."""

    TEXT = "Failed to write to config topic; this may be due to a transient error and the request can be safely retried"

    def __init__(self) -> None:
        super().__init__(self.TEXT)


class NotReadyError(OperationError):
    """Something is missing that comes by itself: e.g. the session key, which the worker has not read yet."""


class RequestTimeoutError(OperationError):
    """The 90 s of a request are over; the message names the stage that the worker was in."""


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


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


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
class ConnectorState:
    """State of the connector itself: UNASSIGNED, RUNNING, PAUSED, STOPPED, FAILED or RESTARTING."""

    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TaskState:
    id: int
    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None


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


class LocalOperations(Protocol):
    """Questions answered from this worker's memory.

    Called on the event loop of the REST server: they must neither wait for anybody nor do I/O.
    """

    def server_info(self) -> ServerInfo: ...

    def connector_names(self) -> Sequence[str]: ...

    def connector_infos(self) -> Mapping[str, ConnectorInfo]: ...

    def connector_statuses(self) -> Mapping[str, ConnectorStatus]: ...

    def connector_status(self, name: str) -> ConnectorStatus:
        """NotFoundError "No status found for connector C"."""

    def task_status(self, name: str, task: int) -> TaskState:
        """NotFoundError "No status found for task C-T"."""

    def active_topics(self, name: str) -> Sequence[str]:
        """Empty for an unknown connector. ForbiddenError when topic tracking is off."""


class ConnectOperations(LocalOperations, Protocol):
    """Everything that the REST API asks of a worker.

    Except for `LocalOperations`, called on threads of the REST server, several at once, and allowed to wait:
    `health` 10 s, the others 90 s, then RequestTimeoutError with the stage. A request that meets a rebalance
    waits for it and raises ConflictError only when that time is up. An error means that nothing was changed,
    except for RequestTimeoutError and ConflictError, after which the change may still come about.
    A config that is passed to create or put holds `name`. What another worker has to do raises ElsewhereError.
    """

    def locate(self, place: Place) -> str | None:
        """The URL of the worker that is responsible for `place` now; None while nobody is. Never raises."""

    def catch_up(self) -> None:
        """Waits until this worker has read what others have written before the call. Never raises."""

    def health(self) -> Health:
        """Never raises: a worker that does not answer in 10 s is UNHEALTHY."""

    def connector_info(self, name: str) -> ConnectorInfo:
        """NotFoundError "Connector C not found"."""

    def connector_config(self, name: str) -> RawConfig:
        """NotFoundError "Connector C not found"."""

    def task_configs(self, name: str) -> Sequence[TaskInfo]:
        """NotFoundError "Connector C not found"."""

    def create_connector(
        self,
        name: str,
        config: RawConfig,
        initial_state: InitialState | None,
        initial_offsets: Sequence[ConnectorOffset] | None = None,
    ) -> ConnectorInfo:
        """BadRequestError if invalid; AlreadyExistsError "Connector C already exists".

        With `initial_offsets` (KIP-995) those replace whatever offsets the name still has; the connector is there
        only once they are.
        """

    def put_connector_config(self, name: str, config: RawConfig) -> StoredConnector:
        """BadRequestError if invalid."""

    def patch_connector_config(self, name: str, patch: RawConfig) -> ConnectorInfo:
        """A None in `patch` removes the key. NotFoundError; BadRequestError if the result is invalid."""

    def delete_connector(self, name: str) -> None:
        """NotFoundError "Connector C not found"."""

    def pause_connector(self, name: str) -> None:
        """Idempotent. NotFoundError "Unknown connector C"."""

    def resume_connector(self, name: str) -> None:
        """Idempotent. NotFoundError "Unknown connector C"."""

    def stop_connector(self, name: str) -> None:
        """Idempotent. NotFoundError "Unknown connector C"."""

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus | None:
        """Restarts what KIP-745 says.

        With both flags off the connector alone is restarted, synchronously: None, or NotFoundError "Unknown
        connector: C". Otherwise the request is written down and the status is returned in which the instances
        to be restarted read RESTARTING already; NotFoundError "Status for connector C not found".
        """

    def restart_task(self, name: str, task: int) -> None:
        """NotFoundError "Unknown connector: C" or "Unknown task: C-T"; ConflictError if stopped."""

    def reset_active_topics(self, name: str) -> None:
        """ForbiddenError "Topic tracking is disabled." or "Topic tracking reset is disabled."."""

    def connector_offsets(self, name: str) -> Sequence[ConnectorOffset]:
        """Where a connector stands, in any state. NotFoundError "Connector C not found"."""

    def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Move the given partitions of a stopped connector; returns what to tell the user.

        NotFoundError; BadRequestError if it is not stopped, or an offset cannot be stored; OperationError if the
        connector refuses.
        """

    def reset_connector_offsets(self, name: str) -> str:
        """Forget all offsets of a stopped connector. Idempotent. Errors as of `alter_connector_offsets`."""

    def plugins(self, *, connectors_only: bool) -> Sequence[PluginInfo]:
        """Sinks, sources, transformations, predicates, converters, header converters, in this order."""

    def plugin_config(self, plugin: str) -> Sequence[KeyDefinition]:
        """`plugin`: class or alias. NotFoundError "Unknown plugin P."; BadRequestError for other kinds."""

    def validate(self, plugin: str, config: RawConfig) -> ValidationReport:
        """Errors of values are in the report. `config` names a connector class that fits `plugin`."""

    def metrics(self) -> bytes:
        """Metrics in Prometheus' text format 0.0.4."""

    def set_cluster_log_level(self, namespace: str, level: str) -> None:
        """Tells all workers that run now (KIP-976)."""

    def verify_internal_request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Checks the signature of a request from another worker (KIP-507), before anything else is looked at.

        `path` is the raw, percent-encoded path; header names are lower case. BadRequestError without a
        signature, ForbiddenError with a wrong one, NotReadyError before the session key is known.
        """

    def put_task_configs(self, name: str, configs: Sequence[RawConfig]) -> None:
        """Leader only, else NotLeadingError; stores the task configs that a connector asked for. NotFoundError."""

    def fence(self, name: str) -> None:
        """Leader only, else NotLeadingError: a round of zombie fencing.

        NotFoundError; BadRequestError "is not a source connector"; ConflictError if new task configs came meanwhile;
        NotReadyError for a cause that passes, FencingRefusedError for any other.
        """
