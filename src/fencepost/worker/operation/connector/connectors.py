"""Connectors: their configs and target states, which the leader writes, and restarts."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event

from fencepost import KAFKA_CONNECT_VERSION, __version__
from fencepost.cluster.command import PutConnector, RemoveConnector, RequestRestart, StaleConfigError, StopConnector
from fencepost.cluster.errors import AlreadyExistsError, BadRequestError, ConflictError, ForbiddenError, NotFoundError
from fencepost.cluster.info import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    InitialState,
    KafkaInfo,
    KeyWarning,
    Lineage,
    Place,
    ServerInfo,
    StoredConnector,
    TaskInfo,
    TaskState,
)
from fencepost.config.reference import RawConfig
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import registry
from fencepost.secret.redaction import HIDDEN, redacted
from fencepost.storage import records
from fencepost.storage.change import RestartRequested, TargetState, TaskId
from fencepost.storage.config_topic import TopicWriter
from fencepost.storage.status_topic import State, Status, StatusTable, StatusTopic
from fencepost.worker.operation.connector.answer import (
    info_of,
    lineage_of,
    masked,
    status_of,
    task_status_of,
    tasks_of,
    unmasked,
    with_restarting,
)
from fencepost.worker.operation.connector.dead_letters import DeadLetters
from fencepost.worker.operation.offset.offsets import Offsets
from fencepost.worker.operation.request import READ_S, STALE, Requests
from fencepost.worker.plan import refusal_of_change
from fencepost.worker.topics import WorkerTopics
from fencepost.worker.validation.validation import require_valid, validate_connector

log = logging.getLogger(__name__)

_PATCH_TRIES = 10
_TARGETS = {
    InitialState.RUNNING: TargetState.STARTED,
    InitialState.PAUSED: TargetState.PAUSED,
    InitialState.STOPPED: TargetState.STOPPED,
}


@dataclass(frozen=True)
class RestartPlan:
    """Whether the connector is restarted, and which of its tasks."""

    is_connector_restarted: bool
    tasks: tuple[int, ...]


def plan_restart(request: RestartRequested, connector: Status | None, tasks: Mapping[int, Status]) -> RestartPlan:
    """Decide by the states that are known when the request is read."""

    def is_due(status: Status | None) -> bool:
        return not request.only_failed or (status is not None and status.state is State.FAILED)

    chosen = tuple(n for n, status in sorted(tasks.items()) if is_due(status)) if request.include_tasks else ()
    return RestartPlan(is_due(connector), chosen)


class Tasks:
    """The `TaskOperations` of a worker."""

    def __init__(
        self, requests: Requests, config: WorkerConfig, statuses: StatusTopic, restart_here: Callable[[TaskId], object]
    ) -> None:
        self._requests = requests
        self._config = config
        self._statuses = statuses
        self._restart_here = restart_here

    def configs(self, name: str) -> Sequence[TaskInfo]:
        return tasks_of(self._requests.known(name), name)

    def restart(self, name: str, task: int) -> None:
        snapshot = self._requests.known(name, "Unknown connector: {}")
        if snapshot.target_state(name) is TargetState.STOPPED:
            raise ConflictError(STALE)
        if not snapshot.has_task(TaskId(name, task)):
            raise NotFoundError(f"Unknown task: {name}-{task}")
        self._requests.ensure_here(Place(name, task), f"restarting task {name}-{task}")
        self._restart_here(TaskId(name, task))

    def reset_active_topics(self, name: str) -> None:
        ensure_topics_are_tracked(self._config)
        if not self._config.topic_tracking_allow_reset:
            raise ForbiddenError("Topic tracking reset is disabled.")
        for topic in self._statuses.table.topics(name):
            self._statuses.remove_topic(name, topic)
        self._statuses.flush(READ_S)


def ensure_topics_are_tracked(config: WorkerConfig) -> None:
    """Raise ForbiddenError if the worker does not track which topics connectors use."""
    if not config.topic_tracking_enable:
        raise ForbiddenError("Topic tracking is disabled.")


class LocalAnswers:
    """The `LocalOperations` of a worker."""

    def __init__(self, config: WorkerConfig, topics: WorkerTopics) -> None:
        self._config = config
        self._topics = topics

    def server_info(self) -> ServerInfo:
        return ServerInfo(KAFKA_CONNECT_VERSION, "unknown", self._topics.cluster_id, __version__)

    def kafka(self) -> KafkaInfo:
        return KafkaInfo(self._topics.cluster_id, redacted(",".join(self._config.bootstrap_servers)))

    def connector_names(self) -> Sequence[str]:
        return sorted(self._topics.snapshot.connectors)

    def connector_infos(self) -> Mapping[str, ConnectorInfo]:
        snapshot = self._topics.snapshot
        return {name: info_of(snapshot, name) for name in sorted(snapshot.connectors)}

    def connector_statuses(self) -> Mapping[str, ConnectorStatus]:
        table, names = self._topics.status.table, self.connector_names()
        return {name: self.connector_status(name) for name in names if table.status(name) is not None}

    def connector_status(self, name: str) -> ConnectorStatus:
        return status_of(self._topics.snapshot, self._topics.status.table, name)

    def task_status(self, name: str, task: int) -> TaskState:
        return task_status_of(self._topics.status.table, name, task)

    def active_topics(self, name: str) -> Sequence[str]:
        ensure_topics_are_tracked(self._config)
        return self._topics.status.table.topics(name)

    def lineage(self, connectors: Collection[str]) -> Sequence[Lineage]:
        snapshot, table = self._topics.snapshot, self._topics.status.table
        known = [name for name in sorted(connectors) if name in snapshot.connectors]
        return [lineage_of(snapshot, name, table.topics(name)) for name in known]


class Connectors:
    """The `ConnectorOperations` of a worker."""

    def __init__(
        self,
        requests: Requests,
        config: WorkerConfig,
        statuses: StatusTable,
        writer: TopicWriter,
        offsets: Offsets,
        restart_here: Callable[[str], Event],
        dead_letters: DeadLetters,
    ) -> None:
        """`restart_here` restarts a connector that runs on this worker; it returns an event that is set afterwards."""
        self._requests = requests
        self._config = config
        self._statuses = statuses
        self._writer = writer
        self._offsets = offsets
        self._restart_here = restart_here
        self.dead_letters = dead_letters

    def info(self, name: str) -> ConnectorInfo:
        return info_of(self._requests.known(name), name)

    def config(self, name: str) -> RawConfig:
        return masked(self._requests.known(name).connectors[name])

    def create(
        self,
        name: str,
        config: RawConfig,
        initial_state: InitialState | None,
        initial_offsets: Sequence[ConnectorOffset] | None = None,
    ) -> StoredConnector:
        self._requests.ensure_leading()
        if name in self._requests.snapshot.connectors:
            raise AlreadyExistsError(f"Connector {name} already exists")
        warnings = self._check(config)
        target = None if initial_state is None else _TARGETS[initial_state]
        command = PutConnector(name, config, is_create=True, target_state=target)
        stage = _writing(name)
        status = None
        if initial_offsets is None:
            snapshot = self._requests.lead(command, stage)
        else:
            snapshot, status = self._offsets.create(command, initial_offsets, stage)
        _log(name, warnings)
        return StoredConnector(True, replace(info_of(snapshot, name), offsets_status=status), warnings)

    def put_config(self, name: str, config: RawConfig) -> StoredConnector:
        self._requests.ensure_leading()
        return self._put(name, config)

    def _put(self, name: str, config: RawConfig, expected: RawConfig | None = None) -> StoredConnector:
        before = self._requests.snapshot
        config = unmasked(config, before.connectors.get(name))
        warnings = self._check(config)
        if refusal := refusal_of_change(before.connectors.get(name, {}), config):
            raise BadRequestError(f"The class of connector {name} cannot be changed like this: {refusal}")
        snapshot = self._requests.lead(PutConnector(name, config, expected=expected), _writing(name))
        _log(name, warnings)
        tasks = info_of(before, name).tasks if name in before.connectors else ()
        info = replace(info_of(snapshot, name), tasks=tasks)
        return StoredConnector(name not in before.connectors, info, warnings)

    def patch_config(self, name: str, patch: RawConfig) -> StoredConnector:
        self._requests.ensure_leading()
        for _ in range(_PATCH_TRIES):
            with self._requests.asking("reading to the end of the config topic"):
                snapshot = self._requests.read_to_end()
            if name not in snapshot.connectors:
                raise NotFoundError(f"Connector {name} not found")
            stored = snapshot.connectors[name]
            merged = {k: v for k, v in {**stored, **patch}.items() if not (k in patch and v is None)}
            try:
                return self._put(name, merged, expected=stored)
            except StaleConfigError:
                continue  # another change came first: apply the patch to its result
        raise ConflictError(f"The config of connector {name} keeps changing; send the request again")

    def delete(self, name: str) -> None:
        self._requests.ensure_leading()
        self._requests.lead(RemoveConnector(name), f"removing the config for connector {name} from the config topic")

    def pause(self, name: str) -> None:
        self._set_target(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        self._set_target(name, TargetState.STARTED)

    def stop(self, name: str) -> None:
        self._requests.ensure_leading()
        self._requests.lead(StopConnector(name), f"stopping connector {name}")

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus | None:
        if not include_tasks and not only_failed:
            self._requests.known(name, "Unknown connector: {}")
            stage = f"restarting connector {name}"
            self._requests.ensure_here(Place(name), stage)
            self._requests.await_event(self._restart_here(name), stage)
            return None
        self._requests.ensure_leading()
        self._requests.known(name, "Unknown connector: {}")
        status = self._statuses.status(name)
        if status is None:
            raise NotFoundError(f"Status for connector {name} not found")
        request = RestartRequested(name, include_tasks, only_failed)
        plan = plan_restart(request, status, self._statuses.tasks(name))
        self._requests.lead(RequestRestart(request), f"writing a restart request for connector {name}")
        shown = status_of(self._requests.snapshot, self._statuses, name)
        return with_restarting(shown, plan.tasks, is_connector_restarted=plan.is_connector_restarted)

    def _check(self, config: RawConfig) -> Sequence[KeyWarning]:
        """Return warnings about keys that look like typos. Raises BadRequestError with all faults."""
        hidden = sorted(key for key, value in config.items() if value == HIDDEN)
        if hidden:
            raise BadRequestError(
                f"{HIDDEN} stands for a stored secret, but none is stored for {', '.join(hidden)}: give the value"
            )
        report = validate_connector(config, plugins=registry(), worker=self._config)
        require_valid(report)
        return report.warnings

    def _set_target(self, name: str, state: TargetState) -> None:
        self._requests.catch_up()  # else this could outlive a connector that another worker has just deleted
        self._requests.known(name, "Unknown connector {}")
        with self._requests.asking(f"writing target state {state.value} for connector {name}"):
            self._writer.write([records.target_state(name, state)], READ_S)
            self._requests.read_to_end()


def _log(name: str, warnings: Sequence[KeyWarning]) -> None:
    for each in warnings:
        log.warning("connector %s: %s", name, each.message)


def _writing(name: str) -> str:
    return f"writing a config for connector {name} to the config topic"
