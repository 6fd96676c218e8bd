"""Finding out where a mirror stands whose group has lost that: what the target itself says, else the source's group."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from fencepost.api import FatalError
from fencepost.kafka.admin import Admin
from fencepost.kafka.group_offset import FORGOTTEN
from fencepost.kafka.group_offsets import GroupOffsets
from fencepost.kafka.log import LogReader, LogRecord
from fencepost.kafka.log_gap import LogPosition
from fencepost.kafka.memberless import read_stable
from fencepost.mirror.formats import FormatError, OffsetSync
from fencepost.mirror.held import MirrorOffsets
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

    1. The last offset sync of the target: it was committed with the records, so nothing is doubled or left out.
    2. The group at the source: it follows the other with some distance, so what came between is mirrored twice.
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
        told = f"Group {self._held.group} of the target has lost where {_names(lost)} stand, which have records there"
        if is_refused:
            raise FatalError(f"{told}: {_WAYS_ON.format(connector, self._held.group)}")
        synced = {} if self._syncs_topic is None else self._by_syncs(self._syncs_topic, lost)
        if synced:
            log.error("%s; offset syncs tell exactly where to go on, of %s", told, _names(synced))
        asked = set(lost) - synced.keys()
        followed = self._by_source_group(asked) if asked else {}
        if followed:
            log.error(
                "%s; group %s of the source tells where to go on, of %s: WHAT WAS MIRRORED SINCE IT COMMITTED THERE IS "
                "MIRRORED TWICE", told, self._held.group, _names(followed),
            )  # fmt: skip
        if rest := asked - followed.keys():
            log.error("%s; nothing tells where to go on, of %s: they are mirrored anew", told, _names(rest))
        return synced | followed

    def _by_syncs(self, syncs_topic: str, lost: Collection[TopicPartition]) -> dict[TopicPartition, LogPosition]:
        last: dict[TopicPartition, LogPosition] = {}

        def note(record: LogRecord) -> None:
            try:
                sync = OffsetSync.decode(record.key, record.value)
            except FormatError:
                return
            if sync.topic_partition in lost:
                last[sync.topic_partition] = LogPosition(sync.upstream_offset + 1)

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
        found = GroupOffsets(self._source_conf, self._held.group).read()
        return {place: LogPosition(found[place]) for place in lost if place in found}


def _names(places: Collection[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(places))
