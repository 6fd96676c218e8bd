"""What REST can ask of this worker: answers from the snapshot and the status table; the leader makes changes."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from fencepost import __version__
from fencepost.cluster.command import (
    ConnectorCommand,
    PutConnector,
    PutTaskConfigs,
    RemoveConnector,
    RequestRestart,
    StaleConfigError,
    StopConnector,
    now_ms,
)
from fencepost.cluster.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ElsewhereError,
    ForbiddenError,
    NotFoundError,
    NotLeadingError,
    NotReadyError,
    OperationError,
    RequestTimeoutError,
)
from fencepost.cluster.info import (
    LEADER,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    Health,
    HealthStatus,
    InitialState,
    KeyDefinition,
    Place,
    PluginInfo,
    RestartInfo,
    RetentionInfo,
    ServerInfo,
    StoredConnector,
    TaskInfo,
    TaskState,
    ValidationReport,
)
from fencepost.cluster.operations import REQUEST_S
from fencepost.cluster.session_key import RequestVerifier
from fencepost.config import ConfigError
from fencepost.config.raw import RawConfig
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError
from fencepost.mirror.source.gap import told_gap
from fencepost.plugin import PluginKind, registry
from fencepost.retention.keeper import Retention
from fencepost.storage import records
from fencepost.storage.change import RestartRequested
from fencepost.storage.ids import TargetState, TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State, Status
from fencepost.worker.connector_classes import refusal_of_change, type_of, type_of_config
from fencepost.worker.membership.membership import Membership
from fencepost.worker.operation.connector.masking import HIDDEN, masked, unmasked
from fencepost.worker.operation.connector.restart import plan_restart
from fencepost.worker.operation.metric.collector import WorkerMetrics
from fencepost.worker.operation.offset.sink import SinkOffsets
from fencepost.worker.operation.offset.source import OffsetChanges
from fencepost.worker.progress import Progress
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.supervision import Supervision
from fencepost.worker.topics import WorkerTopics
from fencepost.worker.validation.validation import plugin_definitions, require_valid, validate_connector

T = TypeVar("T")

log = logging.getLogger(__name__)

_READ_S = 30.0
_PATCH_TRIES = 10
_LOOK_AGAIN_S = 0.1
_CATCH_UP_S = 5.0
_STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)
_HEALTHY = "Worker has completed startup and is ready to handle requests."
_STARTING = "Worker is still starting up."
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


class WorkerOperations:
    """The `ConnectOperations` of a worker."""

    def __init__(
        self,
        settings: WorkerSettings,
        topics: WorkerTopics,
        membership: Membership,
        supervision: Supervision,
        progress: Progress,
        metrics: WorkerMetrics,
        offsets: OffsetChanges,
        sink_offsets: SinkOffsets,
        retention: Retention,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._membership = membership
        self._supervision = supervision
        self._progress = progress
        self._offsets = offsets
        self._sink_offsets = sink_offsets
        self._retention = retention
        self.metrics = metrics.text
        self._topic, self._statuses, self._writer = topics.config, topics.status, topics.writer
        self._leader, self._peers = membership.leader, membership.peers
        config = settings.config
        self._verifier = RequestVerifier(
            settings.incarnation,
            tuple(config.verification_algorithms),
            now_ms,
            accepts_body_only=config.accepts_body_signatures,
        )

    # root and health

    def server_info(self) -> ServerInfo:
        return ServerInfo(__version__, "unknown", self._topics.cluster_id)

    def health(self) -> Health:
        if not self._progress.is_started:
            return Health(HealthStatus.STARTING, f"{_STARTING} {self._progress.described()}")
        try:
            self._topic.read_to_end(10.0)
        except Exception:
            return Health(HealthStatus.UNHEALTHY, f"{_UNHEALTHY} {self._progress.described()}")
        return Health(HealthStatus.HEALTHY, _HEALTHY)

    # the cluster

    def locate(self, place: Place) -> str | None:
        return self._peers.locate(place)

    def catch_up(self) -> None:
        try:
            self._topic.read_to_end(_CATCH_UP_S)
        except Exception as error:
            log.debug("cannot catch up: %s", error)

    def _ensure_here(self, place: Place, stage: str) -> None:
        """Return if this worker is responsible for `place`; wait while none is. Raises ElsewhereError."""
        deadline = time.monotonic() + REQUEST_S
        with self._progress.doing(stage):
            while True:
                url = self._leader_url() if place == LEADER else self._peers.locate(place)
                if url == self._settings.url:
                    return
                if url is not None:
                    raise ElsewhereError(place, url)
                if time.monotonic() > deadline:
                    if not self._progress.is_started:
                        raise self._timed_out()
                    raise NotLeadingError if place == LEADER else ConflictError(_STALE)
                time.sleep(_LOOK_AGAIN_S)

    def _ensure_leading(self) -> None:
        self._ensure_here(LEADER, "waiting for the election of a leader")

    def _leader_url(self) -> str | None:
        """Return the leader's URL; None also if the group has elected this worker and it has not begun to lead yet."""
        url = self._peers.leader_url()
        return None if url == self._settings.url and not self._leader.is_leading else url

    # connectors, read

    @property
    def _snapshot(self) -> ClusterSnapshot:
        return self._topic.snapshot

    def connector_names(self) -> Sequence[str]:
        return sorted(self._snapshot.connectors)

    def connector_infos(self) -> Mapping[str, ConnectorInfo]:
        snapshot = self._snapshot
        return {name: _info(snapshot, name) for name in sorted(snapshot.connectors)}

    def connector_statuses(self) -> Mapping[str, ConnectorStatus]:
        table = self._statuses.table
        found = {}
        for name in sorted(self._snapshot.connectors):
            if table.status(name) is not None:
                found[name] = self.connector_status(name)
        return found

    def connector_info(self, name: str) -> ConnectorInfo:
        return _info(self._known(name), name)

    def connector_config(self, name: str) -> RawConfig:
        return masked(self._known(name).connectors[name])

    def task_configs(self, name: str) -> Sequence[TaskInfo]:
        snapshot = self._known(name)
        found = [(t.task, snapshot.task_config(t) or {}) for t in snapshot.tasks(name)]
        cls = snapshot.connectors[name].get("connector.class")
        return [TaskInfo(TaskId(name, number), masked(config, cls)) for number, config in found]

    def connector_status(self, name: str) -> ConnectorStatus:
        status = self._statuses.table.status(name)
        if status is None:
            raise NotFoundError(f"No status found for connector {name}")
        tasks = [_task_state(number, s) for number, s in self._statuses.table.tasks(name).items()]
        state = ConnectorState(
            status.state.value, status.worker_id, status.trace, status.version, _restart_info(status)
        )
        return ConnectorStatus(name, state, tasks, type_of(self._snapshot, name))

    def task_status(self, name: str, task: int) -> TaskState:
        status = self._statuses.table.status(TaskId(name, task))
        if status is None:
            raise NotFoundError(f"No status found for task {name}-{task}")
        return _task_state(task, status)

    def _known(self, name: str, text: str = "Connector {} not found") -> ClusterSnapshot:
        """Return a snapshot with the connector, reading on if needed: another worker may have just stored it."""
        if name not in self._snapshot.connectors:
            self.catch_up()
        snapshot = self._snapshot
        if name not in snapshot.connectors:
            raise NotFoundError(text.format(name))
        return snapshot

    # connectors, changed

    def create_connector(
        self,
        name: str,
        config: RawConfig,
        initial_state: InitialState | None,
        initial_offsets: Sequence[ConnectorOffset] | None = None,
    ) -> ConnectorInfo:
        self._ensure_leading()
        if name in self._snapshot.connectors:
            raise AlreadyExistsError(f"Connector {name} already exists")
        self._check(config)
        target = None if initial_state is None else _TARGETS[initial_state]
        command = PutConnector(name, config, is_create=True, target_state=target)
        stage = f"writing a config for connector {name} to the config topic"
        if initial_offsets is None:
            return _info(self._lead(command, stage), name)
        offsets = self._offsets_of(config)
        snapshot, status = offsets.create(command, initial_offsets, lambda each: self._lead(each, stage))
        return replace(_info(snapshot, name), offsets_status=status)

    def put_connector_config(self, name: str, config: RawConfig) -> StoredConnector:
        self._ensure_leading()
        return self._put(name, config)

    def _put(self, name: str, config: RawConfig, expected: RawConfig | None = None) -> StoredConnector:
        before = self._snapshot
        config = unmasked(config, before.connectors.get(name))
        self._check(config)
        if refusal := refusal_of_change(before.connectors.get(name, {}), config):
            raise BadRequestError(f"The class of connector {name} cannot be changed like this: {refusal}")
        snapshot = self._lead(
            PutConnector(name, config, expected=expected), f"writing a config for connector {name} to the config topic"
        )
        tasks = _info(before, name).tasks if name in before.connectors else ()
        info = _info(snapshot, name)
        return StoredConnector(name not in before.connectors, ConnectorInfo(info.name, info.config, tasks, info.type))

    def patch_connector_config(self, name: str, patch: RawConfig) -> ConnectorInfo:
        self._ensure_leading()
        for _ in range(_PATCH_TRIES):
            with self._asking("reading to the end of the config topic"):
                snapshot = self._topic.read_to_end(_READ_S)
            if name not in snapshot.connectors:
                raise NotFoundError(f"Connector {name} not found")
            stored = snapshot.connectors[name]
            merged = {k: v for k, v in {**stored, **patch}.items() if not (k in patch and v is None)}
            try:
                return self._put(name, merged, expected=stored).info
            except StaleConfigError:
                continue  # another change came first: apply the patch to its result
        raise ConflictError(f"The config of connector {name} keeps changing; send the request again")

    def delete_connector(self, name: str) -> None:
        self._ensure_leading()
        self._lead(RemoveConnector(name), f"removing the config for connector {name} from the config topic")

    def pause_connector(self, name: str) -> None:
        self._target(name, TargetState.PAUSED)

    def resume_connector(self, name: str) -> None:
        self._target(name, TargetState.STARTED)

    def stop_connector(self, name: str) -> None:
        self._ensure_leading()
        self._lead(StopConnector(name), f"stopping connector {name}")

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus | None:
        if not include_tasks and not only_failed:
            self._known(name, "Unknown connector: {}")
            stage = f"restarting connector {name}"
            self._ensure_here(Place(name), stage)
            with self._progress.doing(stage):
                if not self._supervision.connectors.restart(name).wait(REQUEST_S):
                    raise self._timed_out()
            return None
        self._ensure_leading()
        self._known(name, "Unknown connector: {}")
        status = self._statuses.table.status(name)
        if status is None:
            raise NotFoundError(f"Status for connector {name} not found")
        request = RestartRequested(name, include_tasks, only_failed)
        plan = plan_restart(request, status, self._statuses.table.tasks(name))
        self._lead(RequestRestart(request), f"writing a restart request for connector {name}")
        return _with_restarting(self.connector_status(name), plan.is_connector_restarted, plan.tasks)

    def restart_task(self, name: str, task: int) -> None:
        snapshot = self._known(name, "Unknown connector: {}")
        if snapshot.target_state(name) is TargetState.STOPPED:
            raise ConflictError(_STALE)
        if not snapshot.has_task(TaskId(name, task)):
            raise NotFoundError(f"Unknown task: {name}-{task}")
        self._ensure_here(Place(name, task), f"restarting task {name}-{task}")
        self._supervision.supervisor.restart(TaskId(name, task))

    def _check(self, config: RawConfig) -> None:
        """Raise BadRequestError with all faults."""
        hidden = sorted(key for key, value in config.items() if value == HIDDEN)
        if hidden:
            raise BadRequestError(
                f"{HIDDEN} stands for a stored secret, but none is stored for {', '.join(hidden)}: give the value"
            )
        require_valid(validate_connector(config, find_plugin=registry().find, worker=self._settings.config))

    def _target(self, name: str, state: TargetState) -> None:
        self.catch_up()  # else this could outlive a connector that another worker has just deleted
        self._known(name, "Unknown connector {}")
        with self._asking(f"writing target state {state.value} for connector {name}"):
            self._writer.write([records.target_state(name, state)], _READ_S)
            self._topic.read_to_end(_READ_S)

    def _lead(self, command: ConnectorCommand, stage: str) -> ClusterSnapshot:
        """Let the leader write it.

        If this worker stops leading before that, raises ElsewhereError with the new leader.
        """
        deadline = time.monotonic() + REQUEST_S
        while True:
            with self._asking(stage):
                try:
                    return self._waited_for(self._leader.submit(command), max(0.1, deadline - time.monotonic()))
                except NotLeadingError:
                    if time.monotonic() > deadline:
                        raise
            self._ensure_leading()

    # offsets

    def connector_offsets(self, name: str) -> Sequence[ConnectorOffset]:
        snapshot = self._known(name)
        return self._offsets_of(snapshot.connectors[name]).read(snapshot, name)

    def connector_gaps(self, name: str) -> Sequence[Mapping[str, Any]]:
        gaps = (told_gap(partition or {}, offset or {}) for partition, offset in self.connector_offsets(name))
        return [gap for gap in gaps if gap is not None]

    def _offsets_of(self, config: RawConfig) -> OffsetChanges | SinkOffsets:
        return self._sink_offsets if type_of_config(config) is ConnectorType.SINK else self._offsets

    def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        self._ensure_leading()
        return self._offsets_of(self._snapshot.connectors.get(name, {})).alter(
            name, offsets, lambda each: self._lead(each, f"modifying offsets for connector {name}")
        )

    def reset_connector_offsets(self, name: str) -> str:
        self._ensure_leading()
        offsets = self._offsets_of(self._snapshot.connectors.get(name, {}))
        return offsets.reset(name, lambda each: self._lead(each, f"modifying offsets for connector {name}"))

    # topics, plugins, the inside

    def retention(self, *, is_preview: bool) -> RetentionInfo:
        self._ensure_leading()
        return self._retention.preview() if is_preview else self._retention.info()

    def active_topics(self, name: str) -> Sequence[str]:
        if not self._settings.config.topic_tracking_enable:
            raise ForbiddenError("Topic tracking is disabled.")
        return self._statuses.table.topics(name)

    def reset_active_topics(self, name: str) -> None:
        if not self._settings.config.topic_tracking_enable:
            raise ForbiddenError("Topic tracking is disabled.")
        if not self._settings.config.topic_tracking_allow_reset:
            raise ForbiddenError("Topic tracking reset is disabled.")
        for topic in self._statuses.table.topics(name):
            self._statuses.remove_topic(name, topic)
        self._statuses.flush(_READ_S)

    def plugins(self, *, connectors_only: bool) -> Sequence[PluginInfo]:
        found = registry().all_plugins()
        shown = [p for p in found if not connectors_only or p.type in ("source", "sink")]
        return [PluginInfo(p.class_name, p.type, p.version) for p in shown]

    def plugin_config(self, plugin: str) -> Sequence[KeyDefinition]:
        for kind in PluginKind:
            try:
                return plugin_definitions(registry().find(kind, plugin))
            except ConfigError:
                continue
        raise NotFoundError(f"Unknown plugin {plugin}.")

    def validate(self, plugin: str, config: RawConfig) -> ValidationReport:
        try:
            registry().find(PluginKind.CONNECTOR, plugin)
        except ConfigError as error:
            raise BadRequestError(str(error)) from None
        return validate_connector(config, find_plugin=registry().find, worker=self._settings.config)

    def verify_internal_request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        self._verifier.verify(self._snapshot.session_key, method, path, body, headers)

    def put_task_configs(self, name: str, configs: Sequence[RawConfig]) -> None:
        command = PutTaskConfigs(name, configs, self._settings.is_exactly_once)
        self._leading()
        with self._progress.doing(f"writing task configs for connector {name} to the config topic"):
            self._waited_for(self._leader.submit(command))

    def fence(self, name: str) -> None:
        self._leading()
        with self._progress.doing(f"fencing older tasks of connector {name}"):
            try:
                self._waited_for(self._membership.rounds.fence(name))
            except RequestTimeoutError as error:
                raise NotReadyError(f"Fencing of connector {name} has not finished, retry: {error}") from error

    def _leading(self) -> None:
        """Raise NotLeadingError unless this worker leads: other workers then look up the leader and retry."""
        if not self._leader.is_leading:
            raise NotLeadingError

    def _waited_for(self, outcome: "Future[T]", timeout_s: float = REQUEST_S) -> T:
        try:
            return outcome.result(timeout_s)
        except FutureTimeoutError:
            raise self._timed_out() from None

    @contextmanager
    def _asking(self, stage: str) -> Iterator[None]:
        """Mark a stage of a request that asks Kafka, and turn Kafka's errors into answers: a timeout, or a refusal."""
        with self._progress.doing(stage):
            try:
                yield
            except KafkaUnavailableError as error:
                log.warning("%s: %s", stage, error)
                raise self._timed_out() from error
            except KafkaAuthorizationError as error:
                raise OperationError(str(error)) from error

    def _timed_out(self) -> RequestTimeoutError:
        return RequestTimeoutError(f"Request timed out. {self._progress.described()}")

    def set_cluster_log_level(self, namespace: str, level: str) -> None:
        with self._asking(f"writing the level of logger {namespace}"):
            self._writer.write([records.logger_level(namespace, level)], _READ_S)


_TARGETS = {
    InitialState.RUNNING: TargetState.STARTED,
    InitialState.PAUSED: TargetState.PAUSED,
    InitialState.STOPPED: TargetState.STOPPED,
}


def _info(snapshot: ClusterSnapshot, name: str) -> ConnectorInfo:
    if name not in snapshot.connectors:
        raise NotFoundError(f"Connector {name} not found")
    tasks = [TaskId(name, t.task) for t in snapshot.tasks(name)]
    return ConnectorInfo(name, masked(snapshot.connectors[name]), tasks, type_of(snapshot, name))


def _task_state(number: int, status: Status) -> TaskState:
    restart = _restart_info(status)
    return TaskState(number, status.state.value, status.worker_id, status.trace, status.version, restart)


def _restart_info(status: Status) -> RestartInfo | None:
    return None if status.restart is None else RestartInfo(status.restart.attempts, status.restart.next_ms)


def _with_restarting(status: ConnectorStatus, connector: bool, tasks: Sequence[int]) -> ConnectorStatus:
    """Return the status with RESTARTING for everything that is about to be restarted (KIP-745)."""
    own = status.connector
    state = ConnectorState(State.RESTARTING.value, own.worker_id, None, own.version) if connector else own
    shown = [
        TaskState(t.id, State.RESTARTING.value, t.worker_id, None, t.version) if t.id in tasks else t
        for t in status.tasks
    ]
    return ConnectorStatus(status.name, state, shown, status.type)
