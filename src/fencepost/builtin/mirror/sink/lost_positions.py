"""Recovers the positions of a mirror whose group has lost them, from the target's records and the source's group."""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from fencepost.api import FatalError
from fencepost.builtin.mirror.formats import FormatError, OffsetSync
from fencepost.builtin.mirror.sink.offsets import MirrorOffsets, position_from_metadata
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


@dataclass(frozen=True, slots=True)
class Synced:
    """Where a partition continues according to its last offset sync.

    `lag`: 0 if the remote partition has no record after that of the sync, else how many offsets it has there, which
    is the largest possible number of records mirrored since.
    """

    position: LogPosition
    lag: int


@dataclass(frozen=True)
class Restored:
    """Where partitions continue, by the source of that knowledge; nothing is known of those in `unknown`."""

    exact: Mapping[TopicPartition, LogPosition] = field(default_factory=dict)
    synced: Mapping[TopicPartition, Synced] = field(default_factory=dict)
    followed: Mapping[TopicPartition, LogPosition] = field(default_factory=dict)
    unknown: frozenset[TopicPartition] = frozenset()

    def positions(self) -> dict[TopicPartition, LogPosition]:
        """Return where to continue."""
        return {**self.exact, **{place: one.position for place, one in self.synced.items()}, **self.followed}

    def messages(self, group: str) -> Iterator[str]:
        """Yield what the user has to know about each kind; `group` is the one that lost its positions."""
        if self.exact:
            yield f"offset syncs say exactly where to continue, for {place_names(self.exact)}"
        if self.synced:
            counts = ", ".join(f"{_name(place)} (up to {one.lag})" for place, one in sorted(self.synced.items()))
            yield f"offset syncs lag behind the remote topic: RECORDS ARE MIRRORED TWICE, for {counts}"
        if self.followed:
            yield (
                f"group {group} of the source says where to continue, for {place_names(self.followed)}: RECORDS "
                "MIRRORED AFTER ITS LAST COMMIT ARE MIRRORED TWICE"
            )
        if nameless := [place for place, position in self.positions().items() if not position.topic_id]:
            yield (
                f"the topic ids of these positions are unknown, for {place_names(nameless)}: if a topic was deleted "
                "and recreated since, ITS FIRST RECORDS ARE NOT MIRRORED, and no gap is reported"
            )
        if self.unknown:
            yield f"nothing says where to continue, for {place_names(self.unknown)}: they are mirrored from the start"


def restored(
    lost: Collection[TopicPartition],
    synced: Mapping[TopicPartition, Synced],
    followed: Mapping[TopicPartition, LogPosition],
) -> Restored:
    """Decide where to continue: exactly, if the last sync is of the last record.

    Otherwise the later of both positions in the same topic is taken: neither is ever beyond what was mirrored.
    """
    exact = {place: synced[place].position for place in lost if place in synced and not synced[place].lag}
    by_group = {
        place: followed[place]
        for place in lost
        if place in followed and place not in exact and _is_further(followed[place], synced.get(place))
    }
    lagging = {place: synced[place] for place in lost if place in synced and place not in {*exact, *by_group}}
    return Restored(exact, lagging, by_group, frozenset(lost) - {*exact, *by_group, *lagging})


def _is_further(position: LogPosition, synced: Synced | None) -> bool:
    if synced is None:
        return True
    is_same = "" in (position.topic_id, synced.position.topic_id) or position.topic_id == synced.position.topic_id
    return is_same and position.offset > synced.position.offset


def _name(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"


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
        with closing(Admin(self._target_conf)) as admin:
            ends = existing_ends(admin, remote.keys() - reset, read_committed=True)
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
        with closing(Admin(self._target_conf)) as admin:
            starts = {TopicPartition(*place): start for place, start in admin.offsets.starts(remote).items()}
            ends = {
                TopicPartition(*place): end for place, end in admin.offsets.ends(remote, read_committed=True).items()
            }
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
            with closing(LogReader(self._target_conf, topic)) as reader:
                reader.go_on_at(own)
                within = {partition: ends[TopicPartition(topic, partition)] for partition in own}
                found |= {TopicPartition(topic, partition) for partition in reader.with_records(within, _READ_S)}
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

        with closing(Admin(self._target_conf)) as admin:
            if admin.topics.get(syncs_topic) is None:
                return {}
        with closing(LogReader(self._target_conf, syncs_topic)) as reader:
            reader.read_to_end(_READ_S, collect)
        return last

    def _by_source_group(self, lost: Collection[TopicPartition]) -> dict[TopicPartition, LogPosition]:
        read = read_stable(self._source_conf, self._held.group, _READ_S)
        found = {place: read[place] for place in lost if place in read}
        return {place: position_from_metadata(place, at.offset, at.metadata) for place, at in found.items()}
