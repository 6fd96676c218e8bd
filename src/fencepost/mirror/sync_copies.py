"""Offset syncs that are taken along when the other type of a flow goes on, which has them at another cluster.

They say which record went where, whoever mirrored it. Without them nothing is known at the new place of positions
before the last record of its first transaction: a group that stands there would keep the checkpoint that it has.
"""

import logging
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.produce.writer import RecordWriter
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.kafka.setting.client_settings import Kind, producer_conf, reader_conf
from fencepost.mirror.clients import Cluster
from fencepost.mirror.formats import FormatError, OffsetSync
from fencepost.mirror.internal_topic import ensure_internal_topic
from fencepost.mirror.setting import ReplicationSettings
from fencepost.mirror.translation import Translation
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

MOST_COPIED = 100_000
_READ_S = 120.0
_WRITE_S = 60.0
_AT_ONCE = 10_000  # fewer than the client's queue holds
_PARTITION = 0


class Extent(NamedTuple):
    """How far a partition is mirrored: where the flow goes on at the source, and where the remote partition ends."""

    position: int
    remote_end: int

    def has(self, sync: OffsetSync) -> bool:
        return sync.upstream_offset < self.position and sync.downstream_offset < self.remote_end


class SyncsWithin:
    """Syncs of some partitions, in the order of their topic; those beyond what is mirrored are left out.

    A sync beyond is of another topic of that name, or of records that are mirrored once more: whoever mirrored them was
    killed before it committed.
    """

    def __init__(self, extents: Mapping[TopicPartition, Extent], most: int = MOST_COPIED) -> None:
        """Keep about `most` syncs; with more of them the older ones become sparse."""
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
        """Return those that go on behind what the other has. The last of each partition has all that it came with."""
        found = (sync for place in sorted(self._last) for sync in self._kept.syncs(place) if other._lacks(sync))
        return [last if sync == (last := self._last[sync.topic_partition]) else sync for sync in found]

    def _lacks(self, sync: OffsetSync) -> bool:
        last = self._last.get(sync.topic_partition)
        return last is None or (
            sync.upstream_offset > last.upstream_offset and sync.downstream_offset > last.downstream_offset
        )


def copy_syncs(
    old: ReplicationSettings,
    new: ReplicationSettings,
    extents: Mapping[TopicPartition, Extent],
    target_producer: Mapping[str, object],
) -> int:
    """Write what syncs the older type of a flow has to where the new one has its own; returns how many.

    Neither may run. Asked again, it writes what is missing. `target_producer` has Java's settings of the producers that
    write to the target. Raises ConfigError, or what Kafka says.
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
    topic, key = new.offset_syncs_topic(), new.key_of("offset_syncs_replication_factor")
    with closing(new.admin(to, "migration")) as admin:
        ensure_internal_topic(admin, topic, replication=new.offset_syncs_replication_factor, key=key)
    _read(new, here)
    missing = there.missing_in(here)
    own = new.client(to, Kind.PRODUCER, "migration") if to is Cluster.SOURCE else target_producer
    _write(producer_conf(own).conf, topic, missing)
    return len(missing)


def _read(mirror: ReplicationSettings, into: SyncsWithin) -> None:
    """Read the committed syncs of a type's topic; where there is no topic, there are none."""
    conf = reader_conf(mirror.client(mirror.offset_syncs_cluster(), Kind.CONSUMER, "migration")).conf
    topic = mirror.offset_syncs_topic()

    def take(record: LogRecord) -> None:
        try:
            into.add(OffsetSync.decode(record.key, record.value, record.headers))
        except FormatError as error:
            log.warning("record %d of topic %s is passed over: %s", record.offset, topic, error)

    reader = LogReader(conf, topic)
    try:
        if reader.look(_READ_S) is not None:
            reader.read_to_end(_READ_S, take, looks=False)
    except MissingTopicError:
        return
    finally:
        reader.close()


def _write(conf: Mapping[str, Any], topic: str, syncs: list[OffsetSync]) -> None:
    """Return once all are acknowledged."""
    writer = RecordWriter(conf, topic, partition=_PARTITION)
    try:
        for start in range(0, len(syncs), _AT_ONCE):
            some = syncs[start : start + _AT_ONCE]
            writer.write([(sync.key(), sync.value(), 0, sync.headers()) for sync in some], _WRITE_S)
    finally:
        writer.close()
