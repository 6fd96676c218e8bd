"""Ends what tasks may have open that nobody here runs: of a lost worker, of this one's predecessor, of a lost start."""

import logging
from collections.abc import Callable, Collection, Iterable

from fencepost.cluster.fencing import ConfOf, fence, task_transactional_ids
from fencepost.config import ConfigError
from fencepost.config.worker import ExactlyOnceSource
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.spec import TaskSpec
from fencepost.transaction import WriterOpenError
from fencepost.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

_FENCE_S = 60.0
_LOCK_OUT_S = 30.0


class TaskFence:
    """Fences transactional ids of tasks. Any thread; every method waits for the brokers."""

    def __init__(
        self, settings: WorkerSettings, fence_ids: Callable[[Iterable[str], ConfOf, float], None] = fence
    ) -> None:
        self._settings = settings
        self._fence_ids = fence_ids

    def conf_of(self, snapshot: ClusterSnapshot, connector: str) -> ConfOf:
        """Return what takes a connector's ids. Raises ConfigError for settings that mean nothing here."""
        conf = self._settings.fencing_conf(snapshot.connectors.get(connector, {}))
        return lambda transactional_id: conf

    def fence_predecessor(self, snapshot: ClusterSnapshot) -> None:
        """End what a killed incarnation at this address left open: readers of the offsets topic would wait for it.

        Before this one announces itself: nobody is given those tasks until then.
        """
        if snapshot.assignment is None:
            return
        held = {
            task
            for worker in snapshot.assignment.workers
            if worker.url == self._settings.url and worker.incarnation != self._settings.incarnation
            for task in worker.tasks
        }
        self.fence_lost(snapshot, held)

    def fence_lost(self, snapshot: ClusterSnapshot, tasks: Collection[TaskId]) -> None:
        """End what these tasks may have open, paused ones too: readers of the offsets topic would wait for it."""
        if self._settings.config.exactly_once is ExactlyOnceSource.DISABLED:
            return
        confs: dict[str, ConfOf] = {}
        for task in tasks:
            try:
                conf_of = self.conf_of(snapshot, task.connector)
            except ConfigError as error:  # e.g. what Java would take: its tasks cannot run here, others can
                log.warning("tasks of connector %s are not fenced: %s", task.connector, error)
                continue
            confs |= dict.fromkeys(task_transactional_ids(self._settings.group_id, *task), conf_of)
        try:
            self._fence_ids(confs, lambda transactional_id: confs[transactional_id](transactional_id), _FENCE_S)
        except WriterOpenError as error:
            log.warning("not all that a lost worker held is fenced; the starts of its tasks fence it: %s", error)

    def lock_out(self, spec: TaskSpec) -> None:
        """End what a start of a task has left open, on a connector that is stopped or gone."""
        ids = task_transactional_ids(self._settings.group_id, spec.connector, spec.task)
        try:
            self._fence_ids(ids, lambda transactional_id: spec.producer_conf, _LOCK_OUT_S)
        except WriterOpenError as error:
            log.warning("task %s may have left a transaction open: %s", spec.id, error)
