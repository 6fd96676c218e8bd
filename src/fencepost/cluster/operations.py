"""The port between the REST layer and the worker: what a user may ask.

The REST layer calls a `ConnectOperations` and turns values (`info.py`) and errors (`errors.py`) into HTTP; it never
looks at a topic, a lock or Spark.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fencepost.cluster.info import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    Health,
    InitialState,
    KeyDefinition,
    Place,
    PluginInfo,
    RetentionInfo,
    ServerInfo,
    StoredConnector,
    TaskInfo,
    TaskState,
    ValidationReport,
)
from fencepost.config.raw import RawConfig

REQUEST_S = 90.0
"""How long a request may take, on however many workers: as in Kafka Connect."""


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
        """Return the topics of a connector, none for an unknown one. ForbiddenError when topic tracking is off."""


class ConnectOperations(LocalOperations, Protocol):
    """Everything that the REST API asks of a worker.

    Except for `LocalOperations`, called on threads of the REST server, several at once, and allowed to wait:
    `health` 10 s, the others 90 s, then RequestTimeoutError with the stage. A request that meets a rebalance
    waits for it and raises ConflictError only when that time is up. An error means that nothing was changed,
    except for RequestTimeoutError and ConflictError, after which the change may still come about.
    A config that is passed to create or put holds `name`. What another worker has to do raises ElsewhereError.
    """

    def locate(self, place: Place) -> str | None:
        """Return the URL of the worker that is responsible for `place` now; None while nobody is. Never raises."""

    def catch_up(self) -> None:
        """Wait until this worker has read what others have written before the call. Never raises."""

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
        """Set the keys of `patch`; a None removes one. NotFoundError; BadRequestError if the result is invalid."""

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
        """Return where a connector stands, in any state. NotFoundError "Connector C not found"."""

    def connector_gaps(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return what a mirror has left out of its source since it was gone, and has written down. NotFoundError."""

    def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Move the given partitions of a stopped connector; returns what to tell the user.

        NotFoundError; BadRequestError if it is not stopped, or an offset cannot be stored; OperationError if the
        connector refuses.
        """

    def reset_connector_offsets(self, name: str) -> str:
        """Forget all offsets of a stopped connector. Idempotent. Errors as of `alter_connector_offsets`."""

    def retention(self, *, is_preview: bool) -> RetentionInfo:
        """Return what the leader decided last about topics that sinks' commits empty, or would decide now."""

    def plugins(self, *, connectors_only: bool) -> Sequence[PluginInfo]:
        """Sinks, sources, transformations, predicates, converters, header converters, in this order."""

    def plugin_config(self, plugin: str) -> Sequence[KeyDefinition]:
        """`plugin`: class or alias. NotFoundError "Unknown plugin P."; BadRequestError for other kinds."""

    def validate(self, plugin: str, config: RawConfig) -> ValidationReport:
        """Errors of values are in the report. `config` names a connector class that fits `plugin`."""

    def metrics(self) -> bytes:
        """Metrics in Prometheus' text format 0.0.4."""

    def set_cluster_log_level(self, namespace: str, level: str) -> None:
        """Tell all workers that run now (KIP-976)."""

    def verify_internal_request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Check the signature of a request from another worker (KIP-507), before anything else is looked at.

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
