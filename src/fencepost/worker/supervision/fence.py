"""Ends what a start of a task has left open that no other start follows."""

import logging
from collections.abc import Callable, Iterable

from fencepost.cluster.fencing import ConfOf, fence, task_transactional_ids
from fencepost.task.spec import TaskSpec
from fencepost.transaction import WriterOpenError
from fencepost.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

_LOCK_OUT_S = 30.0


class TaskFence:
    """Fences transactional ids of tasks. Any thread; every method waits for the brokers."""

    def __init__(
        self, settings: WorkerSettings, fence_ids: Callable[[Iterable[str], ConfOf, float], None] = fence
    ) -> None:
        self._settings = settings
        self._fence_ids = fence_ids

    def lock_out(self, spec: TaskSpec) -> None:
        """End what a start of a task has left open, on a connector that is stopped or gone."""
        ids = task_transactional_ids(self._settings.group_id, spec.connector, spec.task)
        try:
            self._fence_ids(ids, lambda transactional_id: spec.producer_conf, _LOCK_OUT_S)
        except WriterOpenError as error:
            log.warning("task %s may have left a transaction open: %s", spec.id, error)
