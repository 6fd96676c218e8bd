"""The source offsets of a connector from all topics that hold them, and the records that change them.

A connector writes to one offsets topic: the worker's, or its own (KIP-618: named, or implied by another cluster). For
partitions that its own topic does not have, the worker's topic counts.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, MissingTopicError
from fencepost.storage.offset_topic import (
    KnownOffset,
    OffsetReader,
    SourceOffset,
    SourcePartition,
    StoredOffset,
    encode_key,
    encode_offset,
    merge,
    stored,
)

LOG = logging.getLogger(__name__)

OffsetRecord = tuple[bytes, bytes | None]


class OffsetTopic(NamedTuple):
    """A topic, and the settings of a client that can read it."""

    name: str
    conf: Mapping[str, Any]


@dataclass(frozen=True)
class OffsetView:
    """The records about one connector in the topics, as read. `own` is None if it has no topic of its own."""

    connector: str
    shared: Sequence[KnownOffset]
    own: Sequence[KnownOffset] | None = None

    @property
    def offsets(self) -> list[StoredOffset]:
        """Return the offset of each partition, without tombstones. The connector's own topic has precedence."""
        return stored(self.known)

    @property
    def known(self) -> Sequence[KnownOffset]:
        """Return each partition, including tombstones. The connector's own topic has precedence."""
        return self.shared if self.own is None else merge(self.own, self.shared)

    @property
    def spellings(self) -> list[tuple[SourcePartition | None, bytes]]:
        """Return the partitions for which the written topic has other key bytes than ours, with these bytes."""
        written = self.shared if self.own is None else self.own
        return [(k.partition, k.key) for k in written if k.key != encode_key(self.connector, k.partition)]

    def change(self, partition: SourcePartition | None, offset: SourceOffset | None) -> "Change":
        """Return the records that set `partition` to `offset` (None deletes it), under the known key bytes."""
        value = encode_offset(offset)
        shared = (self._key(self.shared, partition), value)
        return Change(shared, None) if self.own is None else Change((self._key(self.own, partition), value), shared)

    def _key(self, known: Sequence[KnownOffset], partition: SourcePartition | None) -> bytes:
        canonical = encode_key(self.connector, partition)
        return next((k.key for k in known if encode_key(self.connector, k.partition) == canonical), canonical)


class Change(NamedTuple):
    """A record for the topic that the connector writes to, and one for the worker's topic if that is another."""

    main: OffsetRecord
    copy: OffsetRecord | None

    @property
    def is_tombstone(self) -> bool:
        return self.main[1] is None


class OffsetTopics:
    """Reads offsets topics, and keeps a reader of each for the next time. Thread-safe."""

    def __init__(self, shared: OffsetTopic) -> None:
        self._shared = shared
        self._lock = threading.Lock()
        self._readers: dict[tuple[Any, ...], OffsetReader] = {}

    def read(
        self, connector: str, own: OffsetTopic | None, timeout_s: float, *, may_be_missing: bool = False
    ) -> OffsetView:
        """Read the topics to their present ends, and wait for open transactions (E3).

        Raises ReadTimeoutError if that takes too long. Raises MissingTopicError if the connector's own topic does not
        exist; with `may_be_missing`, it counts as empty instead.
        """
        shared = self._reader(self._shared).read_known(connector, timeout_s)
        if own is None:
            return OffsetView(connector, shared)
        try:
            return OffsetView(connector, shared, self._reader(own).read_known(connector, timeout_s))
        except MissingTopicError:
            if not may_be_missing:
                raise
            return OffsetView(connector, shared, ())

    def catch_up(self, timeout_s: float) -> None:
        """Read the committed records of the worker's topic and of each topic that was read before.

        If a topic cannot be read now, it is skipped; the read that needs it reports why.
        """
        self._reader(self._shared)
        with self._lock:
            readers = list(self._readers.values())
        for reader in readers:
            try:
                reader.catch_up(timeout_s)
            except (KafkaRequestError, KafkaAuthorizationError) as error:
                LOG.debug("%s", error)

    def carried(self, connector: str, own: OffsetTopic | None, task: int, ledger: str) -> dict[int, bytes]:
        """Return what the topic that a connector writes to, as last read, carries for a task's ledger, by partition."""
        return self._reader(own or self._shared).carried(connector, task, ledger)

    def shared_key(self, connector: str, partition: SourcePartition | None) -> bytes:
        """Return the key bytes that the worker's topic, as last read, has for a partition, or else ours."""
        return self._reader(self._shared).key(connector, partition)

    def close(self) -> None:
        with self._lock:
            readers, self._readers = self._readers, {}
        for reader in readers.values():
            reader.close()

    def _reader(self, topic: OffsetTopic) -> OffsetReader:
        key = (topic.name, *sorted((k, str(v)) for k, v in topic.conf.items()))
        with self._lock:
            if key not in self._readers:
                self._readers[key] = OffsetReader(topic.conf, topic.name)
            return self._readers[key]
