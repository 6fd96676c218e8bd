"""What should run on this worker, put together: its connectors, its tasks, and what is said of them."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from fencepost import __version__
from fencepost.cluster.departure import Departures
from fencepost.config.raw import RawConfig
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.connector_classes import ConnectorClasses
from fencepost.worker.life import WorkerLife
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.admission import Admissions
from fencepost.worker.supervision.connector_host import ConnectorHost
from fencepost.worker.supervision.doors import Doors
from fencepost.worker.supervision.fence import TaskFence
from fencepost.worker.supervision.offset_copying import OffsetCopying
from fencepost.worker.supervision.offsets_ahead import OffsetsAhead
from fencepost.worker.supervision.preparation import Preparation
from fencepost.worker.supervision.status import StatusBoard
from fencepost.worker.supervision.supervisor import Notices, TaskSupervisor
from fencepost.worker.supervision.task_metrics import TaskTotals
from fencepost.worker.topics import WorkerTopics

_READ_S = 60.0


class Line(Protocol):
    """What is needed of the `LeaderLine`."""

    def put_task_configs(self, connector: str, configs: Sequence[RawConfig]) -> "Future[Any]": ...

    def fence(self, connector: str) -> "Future[Any]": ...


class Supervision:
    """The parts of the room. `doors` are hung before `start`."""

    def __init__(
        self,
        settings: WorkerSettings,
        topics: WorkerTopics,
        life: WorkerLife,
        departures: Departures,
        fence: TaskFence,
        classes: ConnectorClasses,
        line: Line,
        notices: Notices,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self.doors = Doors(classes)
        self.totals = TaskTotals()
        self.board = StatusBoard(
            topics.status,
            settings.worker_id,
            self._assignment_generation,
            tracks_topics=settings.config.topic_tracking_enable,
            version=__version__,
        )
        self.supervisor = TaskSupervisor(
            settings,
            Preparation(settings, line.fence, topics.read_config, life.stopping),
            self.doors,
            self.board,
            self.totals,
            departures,
            notices,
            fence,
        )
        self.admissions = Admissions(settings, topics.read_config, self.supervisor.handle)
        self.copying = OffsetCopying(self.admissions.topics, topics.copies, self.supervisor.starts)
        self.offsets = OffsetsAhead(self.admissions.topics, life.stopping)
        self.connectors = ConnectorHost(
            settings, classes.find, line.put_task_configs, self.board, self._committed_offsets
        )

    def start(self) -> None:
        """Begin to run what is assigned here."""
        self.supervisor.start()

    def changed(self, snapshot: ClusterSnapshot) -> None:
        """Follow what the config topic says now."""
        self.supervisor.changed(snapshot)
        self.connectors.changed(snapshot)

    def stop(self, *, is_replaced: bool) -> None:
        """End all tasks by their boundary's rule, and all connectors.

        Where another process has this worker's place, that one says what becomes of connectors and tasks.
        """
        if is_replaced:
            self.supervisor.cut_off(True)
        self.supervisor.shut_down(self._settings.config.task_shutdown_graceful_timeout_ms / 1000)
        if not is_replaced:
            self.connectors.stop()

    def _assignment_generation(self) -> int:
        assignment = self._topics.snapshot.assignment
        return assignment.generation if assignment else 0

    def _committed_offsets(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        view = self.admissions.view(self._topics.config.read_to_end(_READ_S), connector, may_be_missing=True)
        return [(dict(partition or {}), dict(offset)) for partition, offset in view.offsets]
