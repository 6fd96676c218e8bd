"""Finding out where a mirror stands whose group has lost that: by what the target has, and by the source's group."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from fencepost.api import FatalError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.kafka.value.group_offset import FORGOTTEN
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.mirror.formats import FormatError, OffsetSync
from fencepost.mirror.held import MirrorOffsets, noted_position
from fencepost.mirror.restored import Synced, names, restored
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_READ_S = 120.0
_WAYS_ON = (
    "say where to go on (PATCH /connectors/{0}/offsets of the stopped connector), or set on.position.loss=restore, "
    "which goes on behind the last record that the target has by its offset syncs, else where group {1} stands at the "
    "source"
)


class LostPositions:
    """Finds positions again, of partitions that the group of a flow knows nothing of though the target has records.

    1. The last offset sync of the target: where no record came behind the one that it is of, nothing is doubled or
       left out. One of the source type, of MirrorMaker, or from before syncs were switched off may lag.
    2. The group at the source: it follows the other with some distance, so what came between is mirrored twice.

    Both say of which topic they speak, so that one that was created again is a gap.
    """

    def __init__(
        self,
        held: MirrorOffsets,
        syncs_topic: str | None,
        source_conf: Mapping[str, Any],
        target_conf: Mapping[str, Any],
    ) -> None:
        """Take the settings of clients that ask (librdkafka's names); without a topic of syncs these tell nothing."""
        self._held = held
        self._syncs_topic = syncs_topic
        self._source_conf = dict(source_conf)
        self._target_conf = dict(target_conf)

    def among(self, places: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return those of these partitions of the source that nobody has reset, and of which the target has records."""
        remote = {self._held.remote(place): place for place in places}
        known = read_stable(self._target_conf, self._held.group, _READ_S, remote.keys())
        reset = {place for place, committed in known.items() if committed.note == FORGOTTEN}
        admin = Admin(self._target_conf)
        try:
            there = admin.topics({place.topic for place in remote.keys() - reset})
            asked = [p for p in remote.keys() - reset if p.topic in there and p.partition < there[p.topic].partitions]
            ends = admin.end_offsets(asked, read_committed=True)
        finally:
            admin.close()
        return sorted(remote[TopicPartition(*place)] for place, end in ends.items() if end > 0)

    def restored(
        self, lost: Collection[TopicPartition], connector: str, *, is_refused: bool
    ) -> dict[TopicPartition, Any]:
        """Return where to go on, of the partitions of which that can be told.

        Raises FatalError where `is_refused`: the user wants to be asked.
        """
        if not lost:
            return {}
        told = f"Group {self._held.group} of the target has lost where {names(lost)} stand, which have records there"
        if is_refused:
            raise FatalError(f"{told}: {_WAYS_ON.format(connector, self._held.group)}")
        synced = {} if self._syncs_topic is None else self._synced(self._last_syncs(self._syncs_topic, lost))
        asked = [place for place in lost if place not in synced or synced[place].behind]
        found = restored(lost, synced, self._by_source_group(asked) if asked else {})
        for saying in found.sayings(self._held.group):
            log.error("%s; %s", told, saying)
        return found.positions()

    def _synced(self, syncs: Mapping[TopicPartition, OffsetSync]) -> dict[TopicPartition, Synced]:
        """Look whether the remote partitions have records behind those that syncs are of. Nobody writes meanwhile."""
        remote = {self._held.remote(place): sync for place, sync in syncs.items()}
        admin = Admin(self._target_conf)
        try:
            starts = {TopicPartition(*place): start for place, start in admin.start_offsets(remote).items()}
            ends = {
                TopicPartition(*place): end for place, end in admin.end_offsets(remote, read_committed=True).items()
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
        """Return the remote partitions that have committed records in these ranges, not markers alone."""
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

        def note(record: LogRecord) -> None:
            try:
                sync = OffsetSync.decode(record.key, record.value, record.headers)
            except FormatError:
                return
            if sync.topic_partition in lost:
                last[sync.topic_partition] = sync

        admin = Admin(self._target_conf)
        try:
            if admin.topic(syncs_topic) is None:
                return {}
        finally:
            admin.close()
        reader = LogReader(self._target_conf, syncs_topic)
        try:
            reader.read_to_end(_READ_S, note)
        finally:
            reader.close()
        return last

    def _by_source_group(self, lost: Collection[TopicPartition]) -> dict[TopicPartition, LogPosition]:
        found = read_stable(self._source_conf, self._held.group, _READ_S)
        return {place: noted_position(place, *found[place]) for place in lost if place in found}
