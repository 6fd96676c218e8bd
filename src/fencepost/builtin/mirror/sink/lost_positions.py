"""Recovers the positions of a mirror whose group has lost them, from the target's records and the source's group."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from fencepost.api import FatalError
from fencepost.builtin.mirror.formats import FormatError, OffsetSync
from fencepost.builtin.mirror.sink.offsets import MirrorOffsets, position_from_metadata
from fencepost.builtin.mirror.sink.restored import Synced, restored
from fencepost.kafka.admin.client import Admin, existing_ends
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.kafka.value.group_offset import FORGOTTEN
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.record import TopicPartition, place_names

log = logging.getLogger(__name__)

_READ_S = 120.0
_WAYS_ON = (
    "choose where to continue (PATCH /connectors/{0}/offsets of the stopped connector), or set "
    "on.position.loss=restore, which continues after the last record that the target has according to its offset "
    "syncs, or else at the offsets of group {1} at the source"
)


class LostPositions:
    """Recovers positions of partitions that a flow's group knows nothing of although the target has records.

    1. The last offset sync at the target. If no record follows the one that it is about, nothing is duplicated or
       lost. A sync of the source type, of MirrorMaker, or from before syncs were switched off may lag.
    2. The group at the source. It lags behind the other, so the records in between are mirrored twice.

    Both name the topic's id, so that a recreated topic is seen as a gap.
    """

    def __init__(
        self,
        held: MirrorOffsets,
        syncs_topic: str | None,
        source_conf: Mapping[str, Any],
        target_conf: Mapping[str, Any],
    ) -> None:
        """Take the settings of clients (librdkafka's names). Without a topic of syncs these are not used."""
        self._held = held
        self._syncs_topic = syncs_topic
        self._source_conf = dict(source_conf)
        self._target_conf = dict(target_conf)

    def among(self, places: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return those of these source partitions that were not reset, and of which the target has records."""
        remote = {self._held.remote(place): place for place in places}
        known = read_stable(self._target_conf, self._held.group, _READ_S, remote.keys())
        reset = {place for place, committed in known.items() if committed.metadata == FORGOTTEN}
        admin = Admin(self._target_conf)
        try:
            ends = existing_ends(admin, remote.keys() - reset, read_committed=True)
        finally:
            admin.close()
        return sorted(remote[place] for place, end in ends.items() if end > 0)

    def restored(
        self, lost: Collection[TopicPartition], connector: str, *, is_refused: bool
    ) -> dict[TopicPartition, Any]:
        """Return where to continue, for the partitions for which that can be found.

        Raises FatalError if `is_refused`: the user wants to decide.
        """
        if not lost:
            return {}
        what = (
            f"Group {self._held.group} of the target has no offsets for {place_names(lost)}, which have records there"
        )
        if is_refused:
            raise FatalError(f"{what}: {_WAYS_ON.format(connector, self._held.group)}")
        synced = {} if self._syncs_topic is None else self._synced(self._last_syncs(self._syncs_topic, lost))
        asked = [place for place in lost if place not in synced or synced[place].lag]
        found = restored(lost, synced, self._by_source_group(asked) if asked else {})
        for message in found.messages(self._held.group):
            log.error("%s; %s", what, message)
        return found.positions()

    def _synced(self, syncs: Mapping[TopicPartition, OffsetSync]) -> dict[TopicPartition, Synced]:
        """Check whether the remote partitions have records after those of the syncs. Nothing is written meanwhile."""
        remote = {self._held.remote(place): sync for place, sync in syncs.items()}
        admin = Admin(self._target_conf)
        try:
            starts = {TopicPartition(*place): start for place, start in admin.offsets.starts(remote).items()}
            ends = {
                TopicPartition(*place): end for place, end in admin.offsets.ends(remote, read_committed=True).items()
            }
        finally:
            admin.close()
        first = {place: sync.downstream_offset + 1 for place, sync in remote.items()}
        deleted = {place for place, at in first.items() if starts[place] > at}
        asked = {place: at for place, at in first.items() if at < ends[place] and place not in deleted}
        followed = deleted | self._with_records(asked, ends)
        return {
            sync.topic_partition: Synced(sync.position, ends[place] - first[place] if place in followed else 0)
            for place, sync in remote.items()
        }

    def _with_records(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> set[TopicPartition]:
        """Return the remote partitions with committed records in these ranges, apart from markers."""
        found: set[TopicPartition] = set()
        for topic in {place.topic for place in starts}:
            own = {place.partition: start for place, start in starts.items() if place.topic == topic}
            reader = LogReader(self._target_conf, topic)
            try:
                reader.go_on_at(own)
                within = {partition: ends[TopicPartition(topic, partition)] for partition in own}
                found |= {TopicPartition(topic, partition) for partition in reader.with_records(within, _READ_S)}
            finally:
                reader.close()
        return found

    def _last_syncs(self, syncs_topic: str, lost: Collection[TopicPartition]) -> dict[TopicPartition, OffsetSync]:
        last: dict[TopicPartition, OffsetSync] = {}

        def collect(record: LogRecord) -> None:
            try:
                sync = OffsetSync.decode(record.key, record.value, record.headers)
            except FormatError:
                return
            if sync.topic_partition in lost:
                last[sync.topic_partition] = sync

        admin = Admin(self._target_conf)
        try:
            if admin.topics.get(syncs_topic) is None:
                return {}
        finally:
            admin.close()
        reader = LogReader(self._target_conf, syncs_topic)
        try:
            reader.read_to_end(_READ_S, collect)
        finally:
            reader.close()
        return last

    def _by_source_group(self, lost: Collection[TopicPartition]) -> dict[TopicPartition, LogPosition]:
        read = read_stable(self._source_conf, self._held.group, _READ_S)
        found = {place: read[place] for place in lost if place in read}
        return {place: position_from_metadata(place, at.offset, at.metadata) for place, at in found.items()}
