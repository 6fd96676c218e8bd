"""What this worker answers from its memory, on the event loop of the REST server."""

from collections.abc import Collection, Mapping, Sequence

from fencepost import KAFKA_CONNECT_VERSION, __version__
from fencepost.cluster.info import ConnectorInfo, ConnectorStatus, KafkaInfo, ServerInfo, TaskState
from fencepost.cluster.lineage import Lineage
from fencepost.config.worker import WorkerConfig
from fencepost.redaction import redacted
from fencepost.worker.operation.connector.answer import info_of, status_of, task_status_of
from fencepost.worker.operation.connector.lineage import lineage_of
from fencepost.worker.operation.connector.tasks import ensure_topics_are_tracked
from fencepost.worker.topics import WorkerTopics


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
