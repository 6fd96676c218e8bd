"""Tasks: their configs, their restart, and the topics that they have used."""

from collections.abc import Callable, Sequence

from fencepost.cluster.errors import ConflictError, ForbiddenError, NotFoundError
from fencepost.cluster.info import Place, TaskInfo
from fencepost.config.worker import WorkerConfig
from fencepost.storage.ids import TargetState, TaskId
from fencepost.storage.status_topic import StatusTopic
from fencepost.worker.operation.connector.answer import tasks_of
from fencepost.worker.operation.request import READ_S, STALE, Requests


class Tasks:
    """The `TaskOperations` of a worker."""

    def __init__(
        self, requests: Requests, config: WorkerConfig, statuses: StatusTopic, restart_here: Callable[[TaskId], object]
    ) -> None:
        """`restart_here` restarts a task that runs on this worker."""
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
