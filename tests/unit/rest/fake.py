"""An in-memory worker: connectors of class Source or Sink with `tasks.max` tasks, and nothing behind them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.cluster.errors import AlreadyExistsError, BadRequestError, ForbiddenError, NotFoundError
from fencepost.cluster.figures import (
    ConnectorFigures,
    LogEvent,
    LogEvents,
    LogQuery,
    PastFigures,
    ReportedTask,
    SlotFigures,
    TaskFigures,
    WorkersEvents,
)
from fencepost.cluster.info import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    Health,
    HealthStatus,
    InitialState,
    KafkaInfo,
    KeyDefinition,
    KeyReport,
    KeyValue,
    KeyWarning,
    Lineage,
    LineageEnd,
    PartitionRetention,
    Place,
    PluginInfo,
    RetentionInfo,
    ServerInfo,
    StoredConnector,
    TaskInfo,
    TaskState,
    TopicRetentionInfo,
    ValidationReport,
)
from fencepost.cluster.operations import ConnectOperations
from fencepost.cluster.topic_records import (
    LetterContent,
    LetterError,
    LetterOrigin,
    LetterPage,
    LetterQuery,
    RecordPage,
    RecordQuery,
    ResendProgressInfo,
    ResendRequest,
    ShownBytes,
    ShownHeader,
    ShownLetter,
    ShownRecord,
    TopicEntry,
)
from fencepost.config.reference import RawConfig
from fencepost.storage.change import TaskId

WORKER = "localhost:8083"
SIGNATURE = "x-connect-authorization"

_TYPES = {"FileStreamSource": ConnectorType.SOURCE, "FileStreamSink": ConnectorType.SINK}
_FILE = KeyDefinition("file", "STRING", True, None, "HIGH", "The file.", None, -1, "NONE", "file", ())


@dataclass
class FakeConnector:
    config: dict[str, str | None]
    state: str = "RUNNING"
    topics: list[str] = field(default_factory=list)
    trace: str | None = None

    @property
    def type(self) -> ConnectorType:
        return _TYPES.get(self.config.get("connector.class") or "", ConnectorType.UNKNOWN)

    @property
    def task_count(self) -> int:
        return 0 if self.state == "STOPPED" else int(self.config.get("tasks.max") or 1)


def _warnings(config: RawConfig) -> Sequence[KeyWarning]:
    return [KeyWarning("odd", "odd: nothing reads it")] if "odd" in config else []


def dead_letter(text: str, place: str = "dead-0@4", *, is_handled: bool = False) -> ShownLetter:
    """A dead letter that says this text wherever it says something."""
    data = ShownBytes(text, False, len(text), False)
    origin, error = LetterOrigin(text, text, {text: 7}, 1_000), LetterError(text, text, text, text, text)
    return ShownLetter(place, 2_000, 0, origin, error, LetterContent(data, None, [ShownHeader(text, data)]), is_handled)


class FakeDeadLetters:
    """The `DeadLetterOperations` of a fake worker."""

    def __init__(self, worker: "FakeWorker") -> None:
        self._worker = worker

    def read(self, name: str, query: LetterQuery) -> LetterPage:
        self._worker.existing(name)
        self._worker.calls.append(("letters", name, query))
        return LetterPage("dead", self._worker.letters)

    def resend(self, name: str, request: ResendRequest) -> ResendProgressInfo:
        self._worker.existing(name)
        self._worker.calls.append(("resend", name, request))
        return ResendProgressInfo("counting", started_ms=1_000)

    def progress(self, name: str) -> ResendProgressInfo:
        self._worker.existing(name)
        return self._worker.resend


class FakeTopics:
    """The `TopicOperations` of a fake worker: each topic has one record, which says its name."""

    def __init__(self, worker: "FakeWorker") -> None:
        self._worker = worker

    def topics(self) -> Sequence[TopicEntry]:
        return [TopicEntry("t", 1)]

    def records(self, topic: str, query: RecordQuery) -> RecordPage:
        self._worker.wait()
        self._worker.calls.append(("records", topic, query))
        data = ShownBytes(topic, False, len(topic), False)
        record = ShownRecord(0, 7, 1_000, data, data, [ShownHeader(topic, data)], topic)
        return RecordPage(topic, 1, [record], "0:8")

    def records_of(self, connector: str, topic: str, query: RecordQuery) -> RecordPage:
        self._worker.existing(connector)
        return self.records(topic, query)


class FakeConnectors:
    """The `ConnectorOperations` of a fake worker."""

    def __init__(self, worker: "FakeWorker") -> None:
        self._worker = worker
        self.dead_letters = FakeDeadLetters(worker)

    def info(self, name: str) -> ConnectorInfo:
        self._worker.existing(name)
        return self._worker.info_of(name)

    def config(self, name: str) -> RawConfig:
        return self._worker.existing(name).config

    def create(
        self,
        name: str,
        config: RawConfig,
        initial_state: InitialState | None,
        initial_offsets: Sequence[ConnectorOffset] | None = None,
    ) -> StoredConnector:
        self._worker.wait()
        self._worker.calls.append(("create", name, dict(config), initial_state))
        if initial_offsets is not None:
            self._worker.offsets[name] = list(initial_offsets)
        if name in self._worker.connectors:
            raise AlreadyExistsError(f"Connector {name} already exists")
        self._worker.check(config)
        self._worker.connectors[name] = FakeConnector(dict(config), (initial_state or InitialState.RUNNING).value)
        status = None if initial_offsets is None else "altered"
        info = replace(self._worker.info_of(name), tasks=(), offsets_status=status)
        return StoredConnector(True, info, _warnings(config))

    def put_config(self, name: str, config: RawConfig) -> StoredConnector:
        self._worker.wait()
        self._worker.calls.append(("put", name, dict(config)))
        self._worker.check(config)
        if name not in self._worker.connectors:
            return self.create(name, config, None)
        before = self._worker.info_of(name).tasks
        self._worker.connectors[name].config = dict(config)
        return StoredConnector(False, replace(self._worker.info_of(name), tasks=before), _warnings(config))

    def patch_config(self, name: str, patch: RawConfig) -> StoredConnector:
        patched = {**self._worker.existing(name).config, **patch}
        config = {key: value for key, value in patched.items() if value is not None}
        return self.put_config(name, config)

    def delete(self, name: str) -> None:
        self._worker.existing(name)
        del self._worker.connectors[name]

    def pause(self, name: str) -> None:
        self._worker.existing(name, "Unknown connector {}").state = "PAUSED"

    def resume(self, name: str) -> None:
        self._worker.existing(name, "Unknown connector {}").state = "RUNNING"

    def stop(self, name: str) -> None:
        self._worker.existing(name, "Unknown connector {}").state = "STOPPED"

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus | None:
        if not include_tasks and not only_failed:
            self._worker.existing(name, "Unknown connector: {}")
            return None
        self._worker.existing(name, "Status for connector {} not found")
        status = self._worker.connector_status(name)
        if only_failed:
            return status
        tasks = [replace(task, state="RESTARTING") for task in status.tasks]
        return replace(status, connector=replace(status.connector, state="RESTARTING"), tasks=tasks)


class FakeTasks:
    """The `TaskOperations` of a fake worker."""

    def __init__(self, worker: "FakeWorker") -> None:
        self._worker = worker

    def configs(self, name: str) -> Sequence[TaskInfo]:
        count = self._worker.existing(name).task_count
        return [TaskInfo(TaskId(name, n), {"task.class": "FileStreamSourceTask"}) for n in range(count)]

    def restart(self, name: str, task: int) -> None:
        if task >= self._worker.existing(name, "Unknown connector: {}").task_count:
            raise NotFoundError(f"Unknown task: {name}-{task}")

    def reset_active_topics(self, name: str) -> None:
        self._worker.check_tracking()
        self._worker.existing(name).topics = []


class FakeOffsets:
    """The `OffsetOperations` of a fake worker."""

    def __init__(self, worker: "FakeWorker") -> None:
        self._worker = worker

    def read(self, name: str) -> Sequence[ConnectorOffset]:
        self._worker.existing(name)
        return self._worker.offsets.get(name, [])

    def gaps(self, name: str) -> Sequence[Mapping[str, Any]]:
        self._worker.existing(name)
        return self._worker.gaps

    def alter(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        self._worker.existing(name)
        self._worker.offsets[name] = list(offsets)
        return "altered"

    def reset(self, name: str) -> str:
        self._worker.existing(name)
        self._worker.offsets.pop(name, None)
        return "reset"


def _event(connector: str) -> LogEvent:
    return LogEvent("2026-01-01T00:00:00.000Z", "ERROR", "x", connector, 0, "it failed", None, WORKER)


def _figures(task: int) -> TaskFigures:
    return TaskFigures(task, WORKER, "source", 1_000, 20, 19, slot=SlotFigures("s", 7, 1 << 20))


class FakePlugins:
    """The `PluginOperations` of a fake worker."""

    def installed(self, *, connectors_only: bool) -> Sequence[PluginInfo]:
        connectors = [PluginInfo("FileStreamSink", "sink", "4.3.1"), PluginInfo("FileStreamSource", "source")]
        return connectors if connectors_only else [*connectors, PluginInfo("RegexRouter", "transformation")]

    def kinds(self) -> Mapping[str, str]:
        return {"FileStreamSink": "sink"}

    def keys(self, plugin: str, version: str | None = None) -> Sequence[KeyDefinition]:
        if plugin not in _TYPES:
            raise NotFoundError(f"Unknown plugin {plugin}.")
        return [_FILE]

    def validate(self, plugin: str, config: RawConfig) -> ValidationReport:
        errors = [] if config.get("file") else ['Missing required configuration "file"']
        file = KeyReport(_FILE, KeyValue("file", config.get("file"), errors=errors))
        odd = KeyReport(None, KeyValue("odd", None, errors=["odd"])) if "odd" in config else None
        reports = [file, odd] if odd else [file]
        return ValidationReport(config["connector.class"] or "", len(errors), ["Common"], reports)


class FakeWorker:
    """The state of a worker, and most operations; `failure`, if set, is raised by all that may wait for the cluster."""

    def __init__(self) -> None:
        self.connectors: dict[str, FakeConnector] = {}
        self.topics = FakeTopics(self)
        self.failure: BaseException | None = None
        self.gaps: list[Mapping[str, Any]] = []
        self.letters: list[ShownLetter] = []
        self.resend = ResendProgressInfo("none")
        self.offsets: dict[str, list[ConnectorOffset]] = {}
        self.health_answer = Health(HealthStatus.HEALTHY, "Worker has completed startup.")
        self.is_tracking_topics = True
        self.kept: list[PastFigures] = []
        self.located: list[str | None] = []
        self.calls: list[tuple[object, ...]] = []
        self.before_wait: Callable[[], None] = lambda: None

    @property
    def operations(self) -> ConnectOperations:
        """Return what a REST application is created with."""
        return ConnectOperations(
            local=self,
            probes=self,
            connectors=FakeConnectors(self),
            tasks=FakeTasks(self),
            offsets=FakeOffsets(self),
            plugins=FakePlugins(),
            cluster=self,
            internal=self,
        )

    def server_info(self) -> ServerInfo:
        return ServerInfo("4.3.1", "abc123", "cluster-1", "0.1.0")

    def kafka(self) -> KafkaInfo:
        return KafkaInfo("cluster-1", "kafka-1:19092,kafka-2:19092")

    def connector_names(self) -> Sequence[str]:
        return list(self.connectors)

    def connector_infos(self) -> Mapping[str, ConnectorInfo]:
        return {name: self.info_of(name) for name in self.connectors}

    def connector_statuses(self) -> Mapping[str, ConnectorStatus]:
        return {name: self.connector_status(name) for name in self.connectors}

    def connector_status(self, name: str) -> ConnectorStatus:
        connector = self.connectors.get(name)
        if connector is None:
            raise NotFoundError(f"No status found for connector {name}")
        tasks = [TaskState(n, connector.state, WORKER) for n in reversed(range(connector.task_count))]
        state = ConnectorState(connector.state, WORKER, connector.trace, "4.3.1")
        return ConnectorStatus(name, state, tasks, connector.type)

    def task_status(self, name: str, task: int) -> TaskState:
        if name in self.connectors:
            for state in self.connector_status(name).tasks:
                if state.id == task:
                    return state
        raise NotFoundError(f"No status found for task {name}-{task}")

    def active_topics(self, name: str) -> Sequence[str]:
        self.check_tracking()
        return self.connectors[name].topics if name in self.connectors else []

    def health(self) -> Health:
        return self.health_answer

    def retention(self, *, is_preview: bool) -> RetentionInfo:
        partitions = [PartitionRetention(0, 5, 9, 7, "sink connector c, which has committed 7")]
        topic = TopicRetentionInfo("t", None, None, 0 if is_preview else 5, None if is_preview else 1_000, partitions)
        return RetentionInfo(not is_preview, 2_000, topics=[topic])

    def set_log_level(self, namespace: str, level: str) -> None:
        self.wait()
        self.calls.append(("log_level", namespace, level))

    def locate(self, place: Place) -> str | None:
        return self.located.pop(0) if len(self.located) > 1 else (self.located or [None])[0]

    def catch_up(self) -> None:
        self.calls.append(("catch_up",))

    def metrics(self) -> bytes:
        return b"# HELP x x\nx 1.0\n"

    def figures(self, connectors: Collection[str]) -> Mapping[str, ConnectorFigures]:
        known = {name: self.connectors[name] for name in connectors if name in self.connectors}
        return {name: ConnectorFigures([_figures(n) for n in range(c.task_count)]) for name, c in known.items()}

    def figures_here(self, connector: str | None = None) -> Sequence[ReportedTask]:
        names = [name for name in self.connectors if connector in (None, name)]
        return [ReportedTask(name, task) for name, found in self.figures(names).items() for task in found.tasks]

    def past(self) -> Sequence[PastFigures]:
        return self.kept

    def past_here(self) -> Sequence[PastFigures]:
        return self.kept

    def logs(self, connector: str, query: LogQuery) -> LogEvents:
        if connector not in self.connectors:
            raise NotFoundError(f"Connector {connector} not found")
        self.calls.append(("logs", connector, query))
        return LogEvents([_event(connector)], "next")

    def logs_here(self, connector: str, query: LogQuery) -> WorkersEvents:
        return WorkersEvents(WORKER, "r", [(7, _event(connector))], 8)

    def lineage(self, connectors: Collection[str]) -> Sequence[Lineage]:
        known = [name for name in connectors if name in self.connectors]
        ends = [LineageEnd("external", "/f")], [LineageEnd("topic", "t")]
        return [Lineage(name, self.connectors[name].type.value, *ends) for name in known]

    def verify(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bool:
        self.wait()
        if SIGNATURE not in headers:
            raise BadRequestError("Internal request missing required headers")
        if body is not None and headers[SIGNATURE] != f"{method} {path} {len(body)}":
            raise ForbiddenError("Internal request contained invalid signature.")
        return body is not None

    def sign_caller(self, url: str, caller: str, method: str, path: str, body: bytes) -> Mapping[str, str]:
        return {SIGNATURE: f"{method} {path} {len(body)} for {caller}"}

    def verify_caller(
        self, caller: str, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> bool:
        if body is not None and headers.get(SIGNATURE) != f"{method} {path} {len(body)} for {caller}":
            raise ForbiddenError("Internal request contained invalid signature.")
        return body is not None

    def put_task_configs(self, name: str, configs: Sequence[RawConfig]) -> None:
        self.existing(name)
        self.calls.append(("task_configs", name, configs))

    def fence(self, name: str) -> None:
        if self.existing(name).type is not ConnectorType.SOURCE:
            raise BadRequestError(f"Connector {name} is not a source connector")

    def wait(self) -> None:
        self.before_wait()
        if self.failure is not None:
            raise self.failure

    def existing(self, name: str, text: str = "Connector {} not found") -> FakeConnector:
        self.wait()
        if name not in self.connectors:
            raise NotFoundError(text.format(name))
        return self.connectors[name]

    def info_of(self, name: str) -> ConnectorInfo:
        connector = self.connectors[name]
        tasks = [TaskId(name, n) for n in range(connector.task_count)]
        return ConnectorInfo(name, connector.config, tasks, connector.type)

    def check(self, config: RawConfig) -> None:
        errors = ["Null value can not be supplied as the configuration value." for v in config.values() if v is None]
        if not config.get("connector.class"):
            errors.append('Missing required configuration "connector.class" which has no default value.')
        if errors:
            count = f"the following {len(errors)} error(s):"
            raise BadRequestError("\n".join([f"Connector configuration is invalid and contains {count}", *errors]))

    def check_tracking(self) -> None:
        if not self.is_tracking_topics:
            raise ForbiddenError("Topic tracking is disabled.")
