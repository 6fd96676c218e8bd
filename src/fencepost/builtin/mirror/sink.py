"""MirrorSinkConnector: copies topics to the target, and keeps its positions there in one transaction (KIP-656).

The positions are in a group of the target that has no members. A broker only accepts offsets of its own topics, so the
position in a source partition is committed for its remote topic. The metadata of the offset names the source topic,
with its id and the epoch of the leader that appended the last record. If the group has lost them, they are recovered
from the target's records and the source's group.
"""

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from fencepost.api import LOW, FatalError, at_least, one_of, setting
from fencepost.builtin.mirror.formats import FormatError, OffsetSync
from fencepost.builtin.mirror.schedule import Round, Rounds, WarningLog
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector, MirrorSourceTask
from fencepost.builtin.mirror.source.position import (
    DueSyncs,
    last_of,
    place_of,
    place_within,
    position_of,
    source_offset,
    source_partition,
)
from fencepost.builtin.mirror.source.remote_topics import Selection, from_text
from fencepost.hook.mirror import OffsetsInGroup
from fencepost.kafka.admin.client import Admin, existing_ends
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.kafka.setting.client_settings import admin_conf, plan_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import FORGOTTEN, NO_EPOCH, GroupOffset, LogPosition
from fencepost.record import TopicPartition, place_names

_TOPIC, _ID, _EPOCH = "topic", "id", "epoch"


class _Metadata(NamedTuple):
    topic: str
    topic_id: str
    epoch: int


def _to_metadata(topic: str | None, topic_id: str, epoch: int = NO_EPOCH) -> str:
    known = {} if epoch == NO_EPOCH else {_EPOCH: epoch}
    return orjson.dumps({_TOPIC: topic, _ID: topic_id, **known}).decode()


def _read(metadata: str) -> _Metadata | None:
    try:
        parsed = orjson.loads(metadata)
        return _Metadata(str(parsed[_TOPIC]), str(parsed[_ID]), int(parsed.get(_EPOCH, NO_EPOCH)))
    except (ValueError, TypeError, KeyError):
        return None


def position_from_metadata(place: TopicPartition, offset: int, metadata: str) -> LogPosition:
    """Return the position in a source partition from an offset and its metadata; metadata of others is ignored."""
    parsed = _read(metadata)
    if parsed is None or parsed.topic != place.topic:
        return LogPosition(offset)
    return LogPosition(offset, parsed.topic_id, parsed.epoch if parsed.topic_id else NO_EPOCH)


class MirrorOffsets(OffsetsInGroup):
    """The source offsets of one flow, as they are kept in its group."""

    def __init__(self, group: str, selection: Selection, assigned_key: str) -> None:
        """`assigned_key` is the property with the partitions of a task."""
        self.group = group
        self._selection = selection
        self._assigned_key = assigned_key

    def place(self, partition: Mapping[str, Any]) -> TopicPartition | None:
        """Return the place of a source partition in the group; None for a connector's other source partitions."""
        upstream = place_within(partition, self._selection.source_alias)
        return None if upstream is None else self.remote(upstream)

    def places(self, task_configs: Sequence[Mapping[str, str | None]]) -> Collection[TopicPartition]:
        assigned = [(each.get(self._assigned_key) or "").split(",") for each in task_configs]
        return [self.remote(place) for names in assigned for place in from_text(filter(None, names))]

    def position(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> tuple[int, str]:
        position = position_of(offset) or LogPosition(0)
        return last_of(offset) + 1, _to_metadata(place_of(partition).topic, position.topic_id, position.epoch)

    def source(
        self, place: TopicPartition, position: int, metadata: str
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the source offset of a committed offset. Without metadata it was set by Kafka's tools."""
        parsed = _read(metadata or _to_metadata(self._selection.policy.upstream_topic(place.topic), ""))
        if parsed is None:
            return None
        upstream = TopicPartition(parsed.topic, place.partition)
        if self.remote(upstream) != place:
            return None
        offset = source_offset(position - 1, parsed.topic_id, parsed.epoch)
        return source_partition(self._selection.source_alias, upstream), offset

    def remote(self, place: TopicPartition) -> TopicPartition:
        """Return the partition of the target that a partition of the source is mirrored to."""
        return TopicPartition(self._selection.remote_topic(place.topic), place.partition)


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


_RENEW_EVERY_S = 3_600.0  # a broker deletes offsets of a group without members, by default after a week
_FOLLOW_FIRST_S, _FOLLOW_EVERY_S, _REFUSED_EVERY_S = 2.0, 10.0, 60.0
_ROLE = "position-admin"


class MirrorSinkTask(MirrorSourceTask):
    """Copies its share of the source's partitions; each transaction has exact syncs of its last records."""

    config: "MirrorSinkConnector"

    def start(self) -> None:
        super().start()
        self._syncs = DueSyncs(0)
        self._renewed_s = float("-inf")  # if plans change often, a task may not live for an hour
        self._followed: dict[tuple[str, int], int] = {}
        self._warnings = WarningLog(log)
        self._reported_s = float("-inf")
        # Not at once, and rarely if the commit is denied: while a commit is in progress, which then takes seconds, the
        # reader's client does not start to fetch newly assigned partitions.
        what, due_s = f"{self.config.flow}: committing in the source's group", time.monotonic() + _FOLLOW_FIRST_S
        following = Round(what, self._follow, _FOLLOW_EVERY_S, due_s)
        self._opened.enter_context(closing(Rounds(f"follow {self.config.flow}", [following]))).start()

    def _positions(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, LogPosition | None]:
        positions = dict(super()._positions(places))
        missing = [place for place, position in positions.items() if position is None]
        if missing:
            own, name = self.config, self._name
            lost = LostPositions(
                own.held(name),
                own.offset_syncs_topic() if own.emit_offset_syncs else None,  # outdated ones would take it back
                self._admin_conf(FlowEnd.SOURCE),
                self._admin_conf(FlowEnd.TARGET),
            )
            is_refused = own.on_position_loss == "fail"
            positions |= lost.restored(lost.among(missing), name, is_refused=is_refused)
        return positions

    def _reader_conf(self, settings: Mapping[str, object]) -> dict[str, Any]:
        return dict(plan_conf(settings, self._group).conf)

    @property
    def _name(self) -> str:
        return str(self.config.originals.get("name", ""))

    @property
    def _group(self) -> str:
        """Return the name of the group that keeps positions at the target, and follows them at the source."""
        return self.config.held(self._name).group

    def _admin_conf(self, cluster: FlowEnd) -> dict[str, Any]:
        return dict(admin_conf(self.config.client(cluster, ClientKind.ADMIN, _ROLE)).conf)

    def _ends(self, fetched: Fetched) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Commit all positions again at an interval, to keep the group from expiring."""
        ends = super()._ends(fetched)
        if time.monotonic() - self._renewed_s < _RENEW_EVERY_S:
            return ends
        self._renewed_s = time.monotonic()
        for place, at in self._input.positions.items():
            partition = source_partition(self._alias, place)
            if position_of(self.context.offset(partition)) is not None:
                ends.append((partition, self._offset_before(place, at)))
        return ends

    def _follow(self) -> None:
        """Commit the mirror's positions at the source, for tools that show lag; this is not part of a transaction.

        It uses the consumer that reads: another client would take processor time from the records whenever it connects.
        """
        error = self._input.commit_error
        self._warnings.update({} if error is None else {f"group {self._group} of the source is not updated": error})
        if error is not None:
            self._followed.clear()
            if time.monotonic() - self._reported_s < _REFUSED_EVERY_S:
                return
        due = [committed for place in self._places if (committed := self._to_commit(place)) is not None]
        moved = [
            committed
            for committed in due
            if self._followed.get((committed.topic, committed.partition)) != committed.offset
        ]
        self._reported_s = time.monotonic()
        self._input.commit(moved)
        self._followed |= {(committed.topic, committed.partition): committed.offset for committed in moved}

    def _to_commit(self, place: TopicPartition) -> GroupOffset | None:
        """Return the mirror's position in a partition, with the metadata that the target's group has, too."""
        partition = source_partition(self._alias, place)
        offset = self.context.offset(partition)
        if position_of(offset) is None:
            return None
        return GroupOffset(*place, *self.config.held(self._name).position(partition, offset))


class MirrorSinkConnector(MirrorSourceConnector):
    """Copies topics of a source cluster to the cluster that the worker's producers write to, and keeps positions there.

    Records, positions and offset syncs are in one transaction of the target. The positions are the offsets of a group
    of the target, `connect-` and the connector's name, which has no members. The leader's plan assigns partitions to
    tasks, and a new plan fences the tasks of the old one.
    """

    task = MirrorSinkTask

    is_transactional: bool = setting(
        "transaction.producer", default=False,
        doc="Whether records and positions must be in one transaction of the target (exactly once); the worker must "
        "then have exactly.once.source.support=enabled. If false, they are so whenever the worker has that setting.",
    )  # fmt: skip
    offset_syncs_location: str = setting(
        "offset-syncs.topic.location", default="target", check=one_of("target", ignore_case=False), importance=LOW,
        doc="The cluster that has the topic of offset syncs: they are in the transactions of the records.",
    )  # fmt: skip
    offset_lag_max: int = setting(
        "offset.lag.max", default=0, check=at_least(0), importance=LOW,
        doc="Ignored: each transaction has a sync of the last record of each partition, so that positions at its end "
        "are translated exactly.",
    )  # fmt: skip
    on_position_loss: str = setting(
        "on.position.loss", default="restore", check=one_of("restore", "fail", ignore_case=False),
        doc="What happens when the target has records of a partition, but its group has lost the mirror's position: "
        "`restore` recovers it from the target's offset syncs or from the source's group; `fail` fails "
        "the task.",
    )  # fmt: skip

    def demands_exactly_once(self) -> str | None:
        return self.key_of("is_transactional") if self.is_transactional else None

    def offsets_in_group(self, name: str) -> OffsetsInGroup | None:
        return self.held(name)

    def held(self, name: str) -> MirrorOffsets:
        """Return how the positions of the connector `name` are kept in its group."""
        return MirrorOffsets(f"connect-{name}", self.selection(), self.key_of("assigned"))
