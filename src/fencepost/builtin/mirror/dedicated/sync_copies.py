"""Copies offset syncs when a flow switches to its other type, which has them on another cluster.

They say which record went where, whichever type mirrored it. Without them, positions before the last record of the new
type's first transaction cannot be translated: a group with such a position would keep its old checkpoint.
"""

import logging
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import NamedTuple

from fencepost.builtin.mirror.checkpoint.translation import Translation
from fencepost.builtin.mirror.formats import FormatError, OffsetSync
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.mirror_settings import ReplicationSettings
from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.produce.writer import RecordWriter
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.kafka.setting.client_settings import producer_conf, reader_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

MOST_COPIED = 100_000
_READ_S = 120.0
_WRITE_S = 60.0
_AT_ONCE = 10_000  # fewer than the client's queue holds
_PARTITION = 0


class Extent(NamedTuple):
    """How far a partition is mirrored: the flow's position at the source, and the end of the remote partition."""

    position: int
    remote_end: int

    def has(self, sync: OffsetSync) -> bool:
        return sync.upstream_offset < self.position and sync.downstream_offset < self.remote_end


class SyncsWithin:
    """Syncs of some partitions, in the order of their topic, without those beyond what is mirrored.

    A sync beyond is of another topic of that name, or of records that will be mirrored again, as their task was killed
    before it committed.
    """

    def __init__(self, extents: Mapping[TopicPartition, Extent], most: int = MOST_COPIED) -> None:
        """Keep roughly `most` syncs; if there are more, older ones are thinned out."""
        self._extents = extents
        self._kept = Translation(most)
        self._last: dict[TopicPartition, OffsetSync] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, sync: OffsetSync) -> None:
        extent = self._extents.get(sync.topic_partition)
        if extent is not None and extent.has(sync):
            self._kept.add(sync)
            self._last[sync.topic_partition] = sync

    def missing_in(self, other: "SyncsWithin") -> list[OffsetSync]:
        """Return the syncs after those of `other`; the last one of each partition keeps its headers."""
        found = []
        for place, last in sorted(self._last.items()):
            known = other._last.get(place)
            found += [
                last if sync == last else sync
                for sync in self._kept.syncs(place)
                if known is None
                or (sync.upstream_offset > known.upstream_offset and sync.downstream_offset > known.downstream_offset)
            ]
        return found


def copy_syncs(
    old: ReplicationSettings,
    new: ReplicationSettings,
    extents: Mapping[TopicPartition, Extent],
    target_producer: Mapping[str, object],
) -> int:
    """Copy the syncs of the old type of a flow to the topic of the new type; returns how many were written.

    Neither may run. A repeated call writes only what is missing. `target_producer` has Java's settings of the producers
    that write to the target. Raises ConfigError, or Kafka's errors.
    """
    if not (old.emit_offset_syncs and new.emit_offset_syncs):
        return 0
    at, to = old.offset_syncs_cluster(), new.offset_syncs_cluster()
    if at is to:
        return 0
    there, here = SyncsWithin(extents), SyncsWithin(extents)
    _read(old, there)
    if not there:
        return 0
    topic = new.offset_syncs_topic()
    with closing(new.admin(to, "migration")) as admin:
        new.ensure_internal_topic(admin, topic, "offset_syncs_replication_factor")
    _read(new, here)
    missing = there.missing_in(here)
    own = new.client(to, ClientKind.PRODUCER, "migration") if to is FlowEnd.SOURCE else target_producer
    with closing(RecordWriter(producer_conf(own).conf, topic, partition=_PARTITION)) as writer:
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            writer.write([(sync.key(), sync.value(), 0, sync.headers()) for sync in some], _WRITE_S)
    return len(missing)


def _read(mirror: ReplicationSettings, into: SyncsWithin) -> None:
    """Read the committed syncs of a type's topic, if it exists."""
    conf = reader_conf(mirror.client(mirror.offset_syncs_cluster(), ClientKind.CONSUMER, "migration")).conf
    topic = mirror.offset_syncs_topic()

    def take(record: LogRecord) -> None:
        try:
            into.add(OffsetSync.decode(record.key, record.value, record.headers))
        except FormatError as error:
            log.warning("skipping record %d of topic %s: %s", record.offset, topic, error)

    with suppress(MissingTopicError), closing(LogReader(conf, topic)) as reader:
        if reader.look(_READ_S) is not None:
            reader.read_to_end(_READ_S, take, looks=False)
