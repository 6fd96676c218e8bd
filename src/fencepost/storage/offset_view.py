"""Where a connector stands by all the topics that its offsets are in, and the records that change that.

A connector writes to one offsets topic: the worker's, or its own (KIP-618: named, or implied by another cluster). What
its own does not say, the worker's does.
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
    """A topic, and the settings of a client that may read it."""

    name: str
    conf: Mapping[str, Any]


@dataclass(frozen=True)
class OffsetView:
    """What the topics said of one connector when they were read. `own` None: it has no topic of its own."""

    connector: str
    shared: Sequence[KnownOffset]
    own: Sequence[KnownOffset] | None = None

    @property
    def offsets(self) -> list[StoredOffset]:
        """Return each partition that is not forgotten, with its offset; the connector's own topic counts first."""
        return stored(self.known)

    @property
    def known(self) -> Sequence[KnownOffset]:
        """Return each partition, also those that are forgotten; the connector's own topic counts first."""
        return self.shared if self.own is None else merge(self.own, self.shared)

    @property
    def spellings(self) -> list[tuple[SourcePartition | None, bytes]]:
        """Partitions that the topic written to knows by other key bytes than ours, with these."""
        written = self.shared if self.own is None else self.own
        return [(k.partition, k.key) for k in written if k.key != encode_key(self.connector, k.partition)]

    def change(self, partition: SourcePartition | None, offset: SourceOffset | None) -> "Change":
        """Return what to write so that `partition` stands at `offset` (None: nowhere), under the known key bytes."""
        value = encode_offset(offset)
        shared = (self._key(self.shared, partition), value)
        return Change(shared, None) if self.own is None else Change((self._key(self.own, partition), value), shared)

    def _key(self, known: Sequence[KnownOffset], partition: SourcePartition | None) -> bytes:
        canonical = encode_key(self.connector, partition)
        return next((k.key for k in known if encode_key(self.connector, k.partition) == canonical), canonical)


class Change(NamedTuple):
    """A record of the topic that the connector writes to, and of the worker's where that is another."""

    main: OffsetRecord
    copy: OffsetRecord | None

    @property
    def is_tombstone(self) -> bool:
        return self.main[1] is None


class OffsetTopics:
    """Reads offsets topics; a reader of each is kept for the next time. Thread-safe."""

    def __init__(self, shared: OffsetTopic) -> None:
        self._shared = shared
        self._lock = threading.Lock()
        self._readers: dict[tuple[Any, ...], OffsetReader] = {}

    def read(
        self, connector: str, own: OffsetTopic | None, timeout_s: float, *, may_be_missing: bool = False
    ) -> OffsetView:
        """Read to the ends that there are now; open transactions are waited for (E3).

        ReadTimeoutError where that takes too long. MissingTopicError for an own topic that does not exist, unless
        that `may_be_missing`: nothing is in it then.
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
        """Read on in the worker's topic, and in each that was read before, as far as it is committed.

        A topic that cannot be read now is left for the read that needs it, which says why.
        """
        self._reader(self._shared)
        with self._lock:
            readers = list(self._readers.values())
        for reader in readers:
            try:
                reader.catch_up(timeout_s)
            except (KafkaRequestError, KafkaAuthorizationError) as error:
                LOG.debug("%s", error)

    def shared_key(self, connector: str, partition: SourcePartition | None) -> bytes:
        """Return the key bytes by which the worker's topic, as it was last read, knows a partition, or ours."""
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
