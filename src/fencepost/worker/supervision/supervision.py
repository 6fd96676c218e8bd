"""Everything about what should run on this worker: its connectors, its tasks, and their statuses."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from fencepost.cluster.info import ConnectorType
from fencepost.cluster.running import Departures
from fencepost.cluster.threads import ThreadsByKey
from fencepost.config.reference import RawConfig
from fencepost.storage.change import TaskId, WorkerAssignment
from fencepost.storage.internal_topics import READ_S
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import Subject
from fencepost.telemetry.measure import WindowedRates
from fencepost.worker.closed_topics import closed_in
from fencepost.worker.plan import class_of, is_dataframe_config, looked_up, type_of, version_of
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.state import WorkerState
from fencepost.worker.supervision.admission import Admissions
from fencepost.worker.supervision.connector import ConnectorHost, ConnectorServices
from fencepost.worker.supervision.fence import TaskFence
from fencepost.worker.supervision.offset import OffsetCopying, OffsetsAhead
from fencepost.worker.supervision.port import Notices, TaskHost
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.task.specs import Preparation
from fencepost.worker.supervision.task.supervisor import TaskSupervisor
from fencepost.worker.supervision.task_metrics import TaskTotals
from fencepost.worker.topics import WorkerTopics

_REMOVED_AT_ONCE = 4  # of one connector


class TaskHosts:
    """Finds the host that runs a connector's tasks.

    Hosts report to the supervisor, which needs them to run tasks: they are attached after it is created, and before it
    starts.
    """

    def __init__(self) -> None:
        self._slots: TaskHost | None = None
        self._frames: TaskHost | None = None

    def attach(self, slots: TaskHost, frames: TaskHost) -> None:
        """Set both hosts."""
        self._slots, self._frames = slots, frames

    def of(self, config: RawConfig) -> TaskHost:
        """Return the host for a connector. Raises ConfigError if its class is not found."""
        host = self._frames if is_dataframe_config(config) else self._slots
        if host is None:
            raise RuntimeError("the task hosts of this worker were not attached")
        return host


class Line(Protocol):
    """The part of `LeaderLine` that is needed here."""

    def put_task_configs(self, connector: str, configs: Sequence[RawConfig]) -> "Future[Any]": ...

    def fence(self, connector: str) -> "Future[Any]": ...


class Supervision:
    """Connects the parts of this package. `hosts` must be attached before `start`."""

    def __init__(
        self,
        settings: WorkerSettings,
        topics: WorkerTopics,
        state: WorkerState,
        departures: Departures,
        fence: TaskFence,
        line: Line,
        notices: Notices,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self.hosts = TaskHosts()
        config = settings.config
        window_s, samples = config.metrics_sample_window_ms / 1000, config.metrics_num_samples
        self.totals = TaskTotals(lambda: WindowedRates(window_s, samples))
        self.board = StatusBoard(
            topics.status,
            settings.worker_id,
            self._assignment_generation,
            self._is_mine,
            tracks_topics=settings.config.topic_tracking_enable,
            version_of=lambda name: version_of(topics.snapshot.connectors.get(name, {})),
        )
        self.supervisor = TaskSupervisor(
            settings,
            Preparation(settings, line.fence, topics.read_config, state.stopping, fence.remove_members),
            self.hosts,
            self.board,
            self.totals,
            departures,
            notices,
            fence,
        )
        self._fence = fence
        self._threads = ThreadsByKey(_REMOVED_AT_ONCE, "remove")
        self.admissions = Admissions(settings, topics.read_config, self.supervisor.handle)
        self.copying = OffsetCopying(self.admissions.topics, topics.copies, self.supervisor.starts)
        self.offsets = OffsetsAhead(self.admissions.topics, state.stopping)
        services = ConnectorServices(
            class_of,
            line.put_task_configs,
            self.board,
            self._committed_offsets,
            lambda config: looked_up(settings.config, config),
            partial(closed_in, settings),
        )
        self.connectors = ConnectorHost(settings.incarnation, services)

    def start(self) -> None:
        """Start to run what is assigned here."""
        self.supervisor.start()

    def changed(self, snapshot: ClusterSnapshot) -> None:
        """Follow the new state of the config topic."""
        self.board.assigned()
        self.supervisor.changed(snapshot)
        self.connectors.changed(snapshot)

    def lost(self, snapshot: ClusterSnapshot, workers: Iterable[WorkerAssignment]) -> None:
        """Remove the members of a lost worker's sinks from their groups: other tasks get their partitions at once.

        The tasks themselves may have to wait for that worker to return. Never waits.
        """
        for worker in workers:
            for task in worker.tasks:
                if type_of(snapshot, task.connector) is ConnectorType.SINK:
                    self._threads.submit(task.connector, self._remove_members, task)

    def _remove_members(self, task: TaskId) -> None:
        snapshot = self._topics.snapshot
        config = snapshot.connectors.get(task.connector)
        if config is not None:
            conf = self._settings.plan(config).clients.sink_conf(task.connector, task.task)
            self._fence.remove_members(task, conf, lambda: not _is_assigned(self._topics.snapshot, task))

    def stop(self, *, is_replaced: bool) -> None:
        """End all tasks as their boundaries decide, and all connectors.

        If another process has taken this worker's place, that process writes the statuses of connectors and tasks.
        """
        if is_replaced:
            self.supervisor.cut_off(True)
        self._threads.stop()
        self.supervisor.shut_down(self._settings.config.task_shutdown_graceful_timeout_ms / 1000)
        if not is_replaced:
            self.connectors.stop()

    def _assignment_generation(self) -> int:
        assignment = self._topics.snapshot.assignment
        return assignment.generation if assignment else 0

    def _is_mine(self, subject: Subject) -> bool:
        mine = self._topics.snapshot.assigned_to(self._settings.incarnation)
        return mine is not None and (subject in mine.tasks or subject in mine.connectors)

    def _committed_offsets(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        view = self.admissions.view(self._topics.config.read_to_end(READ_S), connector, may_be_missing=True)
        return [(dict(partition or {}), dict(offset)) for partition, offset in view.offsets]


def _is_assigned(snapshot: ClusterSnapshot, task: TaskId) -> bool:
    return snapshot.assignment is not None and any(task in each.tasks for each in snapshot.assignment.workers)
