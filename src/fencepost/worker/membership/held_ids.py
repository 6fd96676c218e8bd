"""Which transactional ids the tasks of lost workers may hold, according to this worker's settings."""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.cluster.info import ConnectorType
from fencepost.config import ConfigError
from fencepost.config.raw import RawConfig
from fencepost.config.worker import ExactlyOnceSource
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.connector_classes import is_stream, type_of
from fencepost.worker.settings import WorkerSettings


class HeldIds:
    """The `FencingContext` of `LeftOpen` on a worker."""

    def __init__(self, settings: WorkerSettings, newest: Callable[[], ClusterSnapshot]) -> None:
        self._settings = settings
        self._newest = newest

    @property
    def group_id(self) -> str:
        return self._settings.group_id

    def has_ids(self, snapshot: ClusterSnapshot, connector: str) -> bool:
        """Say whether tasks may have ids. They may while exactly-once is prepared, as other workers may have it on.

        Tasks of a sink have none, those of a stream always have. If the class is not installed here, it is unknown, and
        they are fenced.
        """
        if is_stream(snapshot, connector):
            return True
        is_used = self._settings.config.exactly_once is not ExactlyOnceSource.DISABLED
        return is_used and type_of(snapshot, connector) is not ConnectorType.SINK

    def conf(self, config: RawConfig) -> Mapping[str, Any]:
        """Return the settings to fence a connector's ids. Raises ConfigError if the config is not valid here."""
        try:
            return self._settings.fencing_conf(config)
        except KafkaUnavailableError as error:  # a store with the values that the config refers to
            raise ConfigError(str(error)) from error

    def snapshot(self) -> ClusterSnapshot:
        return self._newest()


def held_by_predecessors(snapshot: ClusterSnapshot, url: str, incarnation: str) -> set[TaskId]:
    """Return the tasks that processes before `incarnation` had at this address. Pure."""
    return {
        task
        for worker in (snapshot.assignment.workers if snapshot.assignment is not None else ())
        if worker.url == url and worker.incarnation != incarnation
        for task in worker.tasks
    }
