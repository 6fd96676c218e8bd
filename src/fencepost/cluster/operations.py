"""The port between the REST layer and the worker: what a user may ask, by resource.

The REST layer calls `ConnectOperations` and turns values (`info.py`) and errors (`errors.py`) into HTTP; it never looks
at a topic, a lock or Spark.

Except for those of `LocalOperations`, operations are called on threads of the REST server, several at once, and may
wait: `health` 10 s, figures 2 s, the others 90 s, then RequestTimeoutError with the stage. A request during a rebalance
waits for its end, and raises ConflictError only when that time is up. An error means that nothing was changed, except
for RequestTimeoutError and ConflictError, after which the change may still happen. Whatever another worker has to do
raises ElsewhereError.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fencepost.cluster.figures import ConnectorFigures, LogEvents, LogQuery, PastFigures, ReportedTask, WorkersEvents
from fencepost.cluster.info import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    Health,
    InitialState,
    KafkaInfo,
    KeyDefinition,
    Lineage,
    Place,
    PluginInfo,
    RetentionInfo,
    ServerInfo,
    StoredConnector,
    TaskInfo,
    TaskState,
    ValidationReport,
)
from fencepost.cluster.topic_records import DeadLetterOperations, TopicOperations
from fencepost.config.reference import RawConfig

REQUEST_S = 90.0
"""The longest time that a request may take, on however many workers: as in Kafka Connect."""
LEADER_RETRY_S = 0.2
LEADER_LOOK_S = 1.0
"""How often a request that another worker was asked to carry out checks whether that worker still leads."""


class LocalOperations(Protocol):
    """Questions answered from this worker's memory.

    Called on the event loop of the REST server, or on one of its threads: they must neither wait nor do I/O.
    """

    def server_info(self) -> ServerInfo: ...

    def kafka(self) -> KafkaInfo: ...

    def connector_names(self) -> Sequence[str]: ...

    def connector_infos(self) -> Mapping[str, ConnectorInfo]: ...

    def connector_statuses(self) -> Mapping[str, ConnectorStatus]: ...

    def connector_status(self, name: str) -> ConnectorStatus:
        """NotFoundError "No status found for connector C"."""

    def task_status(self, name: str, task: int) -> TaskState:
        """NotFoundError "No status found for task C-T"."""

    def active_topics(self, name: str) -> Sequence[str]:
        """Return the topics of a connector, none for an unknown one. ForbiddenError if topic tracking is off."""

    def lineage(self, connectors: Collection[str]) -> Sequence[Lineage]:
        """Return what these connectors read and write; those that do not exist are left out."""


class ProbeOperations(Protocol):
    """Requests of load balancers and dashboards, which separate threads answer even if all others are stuck."""

    def health(self) -> Health:
        """Return the health. Never raises: a worker that does not answer in 10 s is UNHEALTHY."""

    def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format 0.0.4."""

    def figures(self, connectors: Collection[str]) -> Mapping[str, ConnectorFigures]:
        """Return what the tasks of these connectors do, from all workers; those that do not exist are left out."""

    def figures_here(self, connector: str | None = None) -> Sequence[ReportedTask]:
        """Return it for the tasks on this worker, of one connector or of all: another worker asks."""

    def past(self) -> Sequence[PastFigures]:
        """Return what all workers have kept of the last hour, each of its own tasks."""

    def past_here(self) -> Sequence[PastFigures]:
        """Return what this worker has kept: another worker asks."""

    def logs(self, connector: str, query: LogQuery) -> LogEvents:
        """Return log events of all workers. NotFoundError if there is neither a connector nor an event of it."""

    def logs_here(self, connector: str, query: LogQuery) -> WorkersEvents:
        """Return those of this worker, without waiting: another worker asks."""


class ConnectorOperations(Protocol):
    """Connectors. A config that is passed to `create` or `put_config` contains `name`."""

    @property
    def dead_letters(self) -> DeadLetterOperations:
        """Return what may be asked about their dead letters."""

    def info(self, name: str) -> ConnectorInfo:
        """NotFoundError "Connector C not found"."""

    def config(self, name: str) -> RawConfig:
        """NotFoundError "Connector C not found"."""

    def create(
        self,
        name: str,
        config: RawConfig,
        initial_state: InitialState | None,
        initial_offsets: Sequence[ConnectorOffset] | None = None,
    ) -> StoredConnector:
        """BadRequestError if invalid; AlreadyExistsError "Connector C already exists".

        `initial_offsets` (KIP-995) replace all offsets that the name still has; the connector exists only once they
        are stored.
        """

    def put_config(self, name: str, config: RawConfig) -> StoredConnector:
        """BadRequestError if invalid."""

    def patch_config(self, name: str, patch: RawConfig) -> StoredConnector:
        """Set the keys of `patch`; a None removes one. NotFoundError; BadRequestError if the result is invalid."""

    def delete(self, name: str) -> None:
        """NotFoundError "Connector C not found"."""

    def pause(self, name: str) -> None:
        """Idempotent. NotFoundError "Unknown connector C"."""

    def resume(self, name: str) -> None:
        """Idempotent. NotFoundError "Unknown connector C"."""

    def stop(self, name: str) -> None:
        """Idempotent. NotFoundError "Unknown connector C"."""

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus | None:
        """Restart what KIP-745 says.

        With both flags off, only the connector is restarted, before this returns None; NotFoundError "Unknown
        connector: C". Otherwise the request is stored, and the returned status has RESTARTING for the instances to be
        restarted; NotFoundError "Status for connector C not found".
        """


class TaskOperations(Protocol):
    """Tasks of a connector, and the topics that they have used."""

    def configs(self, name: str) -> Sequence[TaskInfo]:
        """NotFoundError "Connector C not found"."""

    def restart(self, name: str, task: int) -> None:
        """NotFoundError "Unknown connector: C" or "Unknown task: C-T"; ConflictError if stopped."""

    def reset_active_topics(self, name: str) -> None:
        """ForbiddenError "Topic tracking is disabled." or "Topic tracking reset is disabled."."""


class OffsetOperations(Protocol):
    """Offsets of a connector. All raise NotFoundError for an unknown connector."""

    def read(self, name: str) -> Sequence[ConnectorOffset]:
        """Return the committed offsets of a connector in any state. NotFoundError "Connector C not found"."""

    def gaps(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return the recorded gaps of a mirror: records that its source had deleted before they were mirrored."""

    def alter(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Set the offsets of these partitions of a stopped connector. Returns a message for the user.

        BadRequestError if it is not stopped, or an offset cannot be stored; OperationError if the connector refuses.
        """

    def reset(self, name: str) -> str:
        """Forget all offsets of a stopped connector. Idempotent. Errors as in `alter`."""


class PluginOperations(Protocol):
    """Installed plugins."""

    def installed(self, *, connectors_only: bool) -> Sequence[PluginInfo]:
        """Sinks, sources, transformations, predicates, converters, header converters, in this order."""

    def kinds(self) -> Mapping[str, str]:
        """Return the word for what each installed connector is for: source, sink, stream or mirror. By class."""

    def keys(self, plugin: str, version: str | None = None) -> Sequence[KeyDefinition]:
        """`plugin`: class or alias; `version`: which of its versions (KIP-891).

        NotFoundError "Unknown plugin P."; BadRequestError for other kinds, or if it is not installed in such a version.
        """

    def validate(self, plugin: str, config: RawConfig) -> ValidationReport:
        """Errors of values are in the report. `config` names a connector class that fits `plugin`."""


class ClusterOperations(Protocol):
    """Operations that concern all workers of the group."""

    @property
    def topics(self) -> TopicOperations:
        """Return what may be asked about topics of the workers' Kafka."""

    def locate(self, place: Place) -> str | None:
        """Return the URL of the worker that is responsible for `place` now; None if there is none. Never raises."""

    def catch_up(self) -> None:
        """Wait until this worker has read everything that others wrote before the call. Never raises."""

    def retention(self, *, is_preview: bool) -> RetentionInfo:
        """Return the leader's last decision on what to delete after sinks' commits, or what it would decide now."""

    def set_log_level(self, namespace: str, level: str) -> None:
        """Set the level of a logger on all workers that are running now (KIP-976)."""


class InternalOperations(Protocol):
    """Requests of other workers. They raise NotLeadingError on a worker that is not the leader."""

    def verify(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bool:
        """Verify the signature of a request from another worker (KIP-507), before anything else is checked.

        `path` is the raw, percent-encoded path; header names are lower case. BadRequestError without a signature,
        ForbiddenError with a wrong one, NotReadyError before the session key is known. On any worker.

        With None for the body, it is verified by its head; False if that is not enough and the body is needed.
        """

    def sign_caller(self, url: str, caller: str, method: str, path: str, body: bytes) -> Mapping[str, str]:
        """Return the headers with which the worker at `url` accepts this request once as one of `caller`.

        On any worker, which has identified the caller. NotReadyError if that worker, or the key, is not known yet.
        """

    def verify_caller(
        self, caller: str, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> bool:
        """Verify that another worker has identified `caller` and sends this request for it. Errors as in `verify`."""

    def put_task_configs(self, name: str, configs: Sequence[RawConfig]) -> None:
        """Store the task configs that a connector asked for. NotFoundError."""

    def fence(self, name: str) -> None:
        """Run a round of zombie fencing.

        NotFoundError; BadRequestError "is not a source connector"; ConflictError if there are newer task configs;
        NotReadyError for a temporary cause, FencingRefusedError for any other.
        """


@dataclass(frozen=True)
class ConnectOperations:
    """All operations that the REST API needs from a worker."""

    local: LocalOperations
    probes: ProbeOperations
    connectors: ConnectorOperations
    tasks: TaskOperations
    offsets: OffsetOperations
    plugins: PluginOperations
    cluster: ClusterOperations
    internal: InternalOperations
