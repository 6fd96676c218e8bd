"""The config topic: every worker follows it, the leader writes it, and any worker may write a few kinds of records."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fencepost.kafka.produce.writer import RecordWriter
from fencepost.kafka.read.follower import LogFollower
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.storage.change import Change, LoggerLevelSet, RestartRequested
from fencepost.storage.fold import apply
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder

LOG = logging.getLogger(__name__)

CONFIG_PARTITION = 0  # the only one; given to producers, because a key's hash could choose a second one if it existed

_IDLE_WAIT_MS = 500
_END_WAIT_MS = 5  # every request that changes something waits this long

OnChange = Callable[[ClusterSnapshot, ClusterSnapshot, Sequence[Change]], None]


class ConfigTopic:
    """Follows the config topic read_committed, in every mode (E4), and keeps the newest snapshot of it.

    `on_change(old, new, changes)` is called for every change, in order. The first call, during `start`, has the
    existing content of the topic, without restart requests and logger levels, which are commands to workers that were
    running when they were written. Later calls run in the topic's own thread and must return quickly, because nothing
    is read in the meantime. An error that it raises is logged.
    """

    def __init__(self, conf: Mapping[str, Any], topic: str, on_change: OnChange | None = None) -> None:
        """`conf`: a consumer's settings, with librdkafka's names."""
        self.topic = topic
        self._on_change = on_change
        self._builder = SnapshotBuilder()
        self._changes: list[Change] = []
        self._snapshot = self._builder.freeze()
        self._is_started = False
        follow, find_end = (
            LogReader(conf, topic, fetch_wait_ms=wait_ms, is_single=True) for wait_ms in (_IDLE_WAIT_MS, _END_WAIT_MS)
        )
        self._follower = LogFollower(follow, self._take, self._publish, find_end)

    @property
    def snapshot(self) -> ClusterSnapshot:
        """Return the newest snapshot. It is empty before `start`."""
        return self._snapshot

    def start(self, timeout_s: float) -> ClusterSnapshot:
        """Read the topic to its end, and keep following it. May be called again after a KafkaUnavailableError."""
        self._follower.start(timeout_s)
        return self._snapshot

    def read_to_end(self, timeout_s: float) -> ClusterSnapshot:
        """Return a snapshot with everything that was written before this call, for which `on_change` has been called.

        This waits for transactions that are open at the call, and raises ReadTimeoutError after `timeout_s`.
        """
        self._follower.read_to_end(timeout_s)
        return self._snapshot

    def read_past(self, offset: int, timeout_s: float) -> ClusterSnapshot:
        """Return a snapshot with everything up to the last record of a committed transaction, as soon as that is read.

        Raises ReadTimeoutError after `timeout_s`.
        """
        self._follower.read_past(0, offset, timeout_s)
        return self._snapshot

    def stop(self) -> None:
        """Stop following the topic. Idempotent."""
        self._follower.stop()

    def _take(self, record: LogRecord) -> None:
        self._changes.extend(apply(self._builder, record.offset, record.key, record.value))

    def _publish(self) -> None:
        old, self._snapshot = self._snapshot, self._builder.freeze()
        changes, self._changes = self._changes, []
        if not self._is_started:
            self._is_started = True
            changes = [c for c in changes if not isinstance(c, RestartRequested | LoggerLevelSet)]
        if changes and self._on_change is not None:
            try:
                self._on_change(old, self._snapshot, changes)
            except Exception:
                LOG.exception("A change of the config topic was not handled")


class TopicWriter:
    """Writes the records that any worker may write, outside transactions: target states, logger levels."""

    def __init__(self, conf: Mapping[str, Any], topic: str) -> None:
        """`conf`: a producer's settings, with librdkafka's names."""
        self._writer = RecordWriter(conf, topic, partition=CONFIG_PARTITION)

    def write(self, records: Iterable[Encoded], timeout_s: float) -> None:
        """Write records, and return when all are acknowledged. After KafkaUnavailableError it is unknown which were."""
        self._writer.write(records, timeout_s)

    def close(self) -> None:
        self._writer.close()
