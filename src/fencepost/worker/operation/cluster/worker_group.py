"""What the workers of a group do together."""

from fencepost.cluster.info import Place, RetentionInfo
from fencepost.cluster.topic_records import TopicOperations
from fencepost.retention.keeper import Retention
from fencepost.storage import records
from fencepost.storage.config_topic import TopicWriter
from fencepost.worker.membership.peers import Peers
from fencepost.worker.operation.request import READ_S, Requests


class WorkerGroup:
    """The `ClusterOperations` of a worker."""

    def __init__(
        self,
        requests: Requests,
        peers: Peers,
        writer: TopicWriter,
        retention: Retention,
        topics: TopicOperations,
    ) -> None:
        self.topics = topics
        self._requests = requests
        self._peers = peers
        self._writer = writer
        self._retention = retention

    def locate(self, place: Place) -> str | None:
        return self._peers.locate(place)

    def catch_up(self) -> None:
        self._requests.catch_up()

    def retention(self, *, is_preview: bool) -> RetentionInfo:
        self._requests.ensure_leading()
        return self._retention.preview() if is_preview else self._retention.info()

    def set_log_level(self, namespace: str, level: str) -> None:
        with self._requests.asking(f"writing the level of logger {namespace}"):
            self._writer.write([records.logger_level(namespace, level)], READ_S)
