"""The internal topics as this worker reads and writes them."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from fencepost.config import ConfigError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.storage.config_topic import ConfigTopic, OnChange, TopicWriter
from fencepost.storage.internal_topics import READ_S, ReplicationError, check_config_topic, ensure_internal_topics
from fencepost.storage.offset_copies import OffsetCopies
from fencepost.storage.offset_topic import SharedRead
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import StatusTopic
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.state import WorkerState, repeat

log = logging.getLogger(__name__)

_WATCH_EVERY_S = 10.0
_BROKERS_S = 30.0
_READING = "reading to the end of internal topics"


class WorkerTopics:
    """The readers and writers of the internal topics. `read_config` combines simultaneous calls into one read."""

    def __init__(self, settings: WorkerSettings, state: WorkerState, on_change: OnChange) -> None:
        config = settings.config
        self._settings = settings
        self._state = state
        self._admin = Admin(settings.admin_conf(), timeout_s=15.0)
        self._brokers_by: float | None = None
        self.cluster_id = ""
        self.config = ConfigTopic(settings.reader_conf(), config.config_storage_topic, on_change)
        self.status = StatusTopic(settings.reader_conf(), settings.producer_conf(), config.status_storage_topic)
        self.writer = TopicWriter(settings.producer_conf(), config.config_storage_topic)
        self.copies = OffsetCopies(settings.producer_conf(), config.offset_storage_topic)
        self.read_config = SharedRead(self.config.read_to_end)  # many tasks start at once

    @property
    def snapshot(self) -> ClusterSnapshot:
        """Return the state of the config topic as it was last read."""
        return self.config.snapshot

    @property
    def newest_here(self) -> str | None:
        """Return the newest incarnation that has announced itself at this worker's address."""
        return self.snapshot.incarnations.get(self._settings.url)

    def connect(self) -> None:
        """Reach Kafka, and find or create the internal topics. Raises KafkaUnavailableError, or a permanent error."""
        self.cluster_id = self._admin.cluster_id()
        try:
            ensure_internal_topics(self._admin, self._settings.config)
        except ReplicationError as error:
            self._brokers_by = self._brokers_by or time.monotonic() + _BROKERS_S
            if time.monotonic() > self._brokers_by:
                raise
            raise KafkaUnavailableError(
                f"{error} Brokers may still be starting: waiting {_BROKERS_S:g} s for them"
            ) from error

    def watch(self) -> None:
        """End the worker if the config topic gets a second partition, because other programs might write to that."""
        repeat("watch-topics", _WATCH_EVERY_S, self._look, self._state.stopping, level=logging.DEBUG)

    def _look(self) -> None:
        try:
            check_config_topic(self._admin, self._settings.config)
        except ConfigError as error:
            self._state.fail(error)

    def read(self, after_config: Callable[[], None]) -> None:
        """Read the config and status topics in parallel; calls `after_config` without waiting for the statuses."""
        with ThreadPoolExecutor(1) as pool:
            statuses = pool.submit(self._state.retry, _READING, partial(self.status.start, READ_S))
            self._state.retry(_READING, partial(self.config.start, READ_S))
            after_config()
            statuses.result()

    def close(self) -> None:
        """Close all readers and writers."""
        self.status.stop()
        self.config.stop()
        self.writer.close()
        self.copies.close()
        self._admin.close()
