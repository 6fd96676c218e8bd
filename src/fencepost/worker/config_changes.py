"""What follows on this worker from a change of the config topic."""

from collections.abc import Sequence
from typing import Protocol

from fencepost.cluster.command import Leadership, now_ms
from fencepost.cluster.running import Departures
from fencepost.storage.change import (
    Change,
    ConnectorConfigRemoved,
    LoggerLevelSet,
    RestartRequested,
    TaskConfigsUpdated,
    TasksStopped,
)
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import StatusTable
from fencepost.telemetry.loggers import LEVELS, loggers
from fencepost.worker.operation.connector.connectors import plan_restart
from fencepost.worker.state import Progress
from fencepost.worker.supervision.status import StatusCleaner
from fencepost.worker.supervision.supervision import Supervision


class WakeableLeader(Leadership, Protocol):
    """The part of `Leader` that is needed here."""

    def wake(self) -> None: ...


class Restarts:
    """Carries out restart requests, which every worker receives, for the parts that run here (KIP-745)."""

    def __init__(self, incarnation: str, statuses: StatusTable, supervision: Supervision) -> None:
        self._incarnation = incarnation
        self._statuses = statuses
        self._supervision = supervision

    def carry_out(self, request: RestartRequested, snapshot: ClusterSnapshot) -> None:
        """Queue the restarts; never waits."""
        mine = snapshot.assigned_to(self._incarnation)
        if mine is None:
            return
        connector = request.connector
        plan = plan_restart(request, self._statuses.status(connector), self._statuses.tasks(connector))
        if plan.is_connector_restarted and connector in mine.connectors:
            self._supervision.connectors.restart(connector)
        for number in plan.tasks:
            if TaskId(connector, number) in mine.tasks:
                self._supervision.supervisor.restart(TaskId(connector, number))


class ConfigChanges:
    """Called on the thread that reads the config topic: only queues work, and never waits."""

    def __init__(
        self,
        progress: Progress,
        departures: Departures,
        supervision: Supervision,
        leader: WakeableLeader,
        status_cleaner: StatusCleaner,
        restarts: Restarts,
    ) -> None:
        self._progress = progress
        self._departures = departures
        self._supervision = supervision
        self._leader = leader
        self._status_cleaner = status_cleaner
        self._restarts = restarts

    def changed(self, old: ClusterSnapshot, new: ClusterSnapshot, changes: Sequence[Change]) -> None:
        """Pass a change on, once the worker has started."""
        if not self._progress.is_started:
            return
        self._record_departures(old, new, changes)
        if any(isinstance(c, ConnectorConfigRemoved | TaskConfigsUpdated) for c in changes):
            self._status_cleaner.forget(new)  # before a connector of the same name writes a status
        self._see_to_waiting(old, new)
        self.take_work(new)
        for change in changes:
            if isinstance(change, RestartRequested):
                self._restarts.carry_out(change, new)
            elif isinstance(change, LoggerLevelSet) and change.level in LEVELS:
                loggers.set_level(change.namespace, change.level, now_ms())

    def take_work(self, snapshot: ClusterSnapshot) -> None:
        """Run what the snapshot assigns to this worker."""
        self._supervision.changed(snapshot)
        self._leader.wake()

    def _record_departures(self, old: ClusterSnapshot, new: ClusterSnapshot, changes: Sequence[Change]) -> None:
        self._departures.changed(old, new)
        for change in changes:
            if isinstance(change, TasksStopped):
                self._departures.ended(change.incarnation, change.tasks)

    def _see_to_waiting(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        """Write statuses, if this worker leads, for the parts of lost workers that wait for the worker to return."""
        if self._leader.is_leading and new.assignment is not None and new.assignment is not old.assignment:
            before = old.assignment.waiting if old.assignment is not None else ()
            lost = [each for each in new.assignment.waiting if each not in before]
            self._supervision.board.waiting(lost)
            self._supervision.lost(new, [each.worker for each in lost])
