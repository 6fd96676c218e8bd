"""Where a member starts to read, and what is known of a group's offsets: the topic's id and a leader epoch.

The epoch is that of the record before the offset. Both are committed with the offset. From the epoch, brokers know
whether the log was cut while the group did not read (KIP-320). An epoch is used only with the topic's id, because the
epochs of a topic that was created again begin at 0 again. A commit has no field for the id, so it is in the offset's
metadata. An id is used only with an epoch: mirrors copy the metadata of groups to other clusters, but not the epochs.

librdkafka does not say of which topic a record is. What it has read is committed with the id that the topic had at the
assignment, once brokers have said, after the reading, that the topic still has it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import orjson
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.errors import ASK_S, KafkaRequestError
from fencepost.kafka.group.group_offsets import Committed, inner_metadata
from fencepost.kafka.read.member_client import MemberClient, MemberIdentity
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import NO_EPOCH, GroupOffset, LogPosition, MemberGeneration
from fencepost.record import TopicPartition

_TOPIC_ID = "fencepost.topic_id"
_READ_TO = "fencepost.read_to"
_CLUSTER = "fencepost.cluster"
_ID = re.compile(r"[A-Za-z0-9+/_-]{22}")


class ReadLog(NamedTuple):
    """A committed offset, and the log that was read: up to `read_to`, where the last record has this leader epoch.

    From there to the offset there was nothing that readers see.
    """

    offset: int
    topic_id: str
    epoch: int
    read_to: int


class KnownPositions:
    """Holds one range of offsets for each partition: it ends at the last position, and has one topic id and epoch."""

    def __init__(self) -> None:
        self._ranges: dict[TopicPartition, tuple[int, LogPosition]] = {}  # the first offset, and the last position
        self._past: dict[TopicPartition, int] = {}  # the end of what readers do not see after the range
        self.cluster = ""
        """The id of the cluster, if it is known."""
        self._cut: dict[TopicPartition, int] = {}  # the ends of logs of which nothing was read since they were cut

    def read_to(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Record that partitions have been read up to these positions, from the ones recorded before."""
        for place, position in positions.items():
            first, last = self._ranges.get(place, (position.offset, position))
            if (last.topic_id, last.epoch) != (position.topic_id, position.epoch):
                self._ranges[place] = position.offset, position
            elif position.offset >= last.offset:
                self._ranges[place] = first, position

    def read_past(self, ends: Mapping[TopicPartition, int]) -> None:
        """Record that there is nothing that readers see from the last positions to these offsets."""
        self._past.update(ends)

    def move(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Record that reading continues at these positions."""
        for place, position in positions.items():
            self._past.pop(place, None)
            if place in self._cut:
                self._cut[place] = position.offset
            if self.at(place, position.offset) != position:
                self._ranges[place] = position.offset, position

    def jump(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Record that reading continues at these offsets, whatever comes before them."""
        for place, offset in offsets.items():
            _, last = self._ranges.get(place, (0, LogPosition(offset)))
            if offset > max(last.offset, self._past.get(place, 0)):
                self.forget([place])
            elif offset < last.offset:
                self._past.pop(place, None)

    def go_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Record that reading continues before what was read: that is in no log any more, as these were cut there."""
        self._cut.update(offsets)

    def hand_out(self, fetched: Fetched) -> None:
        """Record what the member returns."""
        if self._cut:
            self._cut.update((place, end) for place, end in fetched.ends.items() if place in self._cut)
            for place in fetched.next_offsets():
                self._cut.pop(place, None)

    def within(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return from where to read in order to miss nothing after these offsets."""
        return {place: min(offset, self._cut.get(place, offset)) for place, offset in offsets.items()}

    def forget(self, places: Collection[TopicPartition]) -> None:
        for place in places:
            self._ranges.pop(place, None)
            self._past.pop(place, None)
            self._cut.pop(place, None)

    def at(self, place: TopicPartition, offset: int) -> LogPosition | None:
        """Return the position at an offset with its topic id and epoch; None unless both are known."""
        first, last = self._ranges.get(place, (0, LogPosition(NO_EPOCH)))
        is_known = first <= offset <= last.offset and bool(last.topic_id) and last.epoch != NO_EPOCH
        return replace(last, offset=offset) if is_known else None

    def commits(self, offsets: Mapping[TopicPartition, int]) -> list[GroupOffset]:
        """Return offsets as they are committed, without those of logs before these were cut."""
        within = self.within(offsets)
        return [self.to_commit(place, offset) for place, offset in offsets.items() if within[place] == offset]

    def to_commit(self, place: TopicPartition, offset: int) -> GroupOffset:
        """Return an offset as it is committed."""
        known = self.at(place, offset)
        if known is None and offset <= self._past.get(place, 0):
            _, last = self._ranges.get(place, (0, LogPosition(offset)))
            known = self.at(place, last.offset) if last.offset < offset else None
        if known is None:
            return GroupOffset(*place, offset)
        fields: dict[str, object] = {_TOPIC_ID: known.topic_id}
        if known.offset == offset:
            return GroupOffset(*place, offset, orjson.dumps(fields).decode(), known.epoch)
        fields[_READ_TO] = known.offset, known.epoch  # markers may have a newer epoch: other programs would see a cut
        if self.cluster:
            fields[_CLUSTER] = self.cluster
        return GroupOffset(*place, offset, orjson.dumps(fields).decode())


def committed_position(committed: GroupOffset) -> LogPosition:
    """Return the position that a committed offset names."""
    topic_id = _topic_id(_fields(committed))
    if not topic_id or committed.leader_epoch == NO_EPOCH:
        return LogPosition(committed.offset)
    return LogPosition(committed.offset, topic_id, committed.leader_epoch)


def goes_back(committed: GroupOffset, begin: int, cut_at: int) -> bool:
    """Say whether to read on where a log was cut instead of at `begin`.

    An offset past the group's was chosen by the task. It stays if the log has everything that the group has read.
    """
    read = assigned_log(committed)
    is_cut = read is not None and cut_at < read.read_to
    return cut_at < begin and (is_cut or begin <= committed.offset)


def is_where_the_group_is(committed: GroupOffset, begin: int) -> bool:
    """Say whether a member begins where its group's offset says: there, or after the last record before markers."""
    read = assigned_log(committed)
    return begin == committed.offset or (read is not None and begin == read.read_to)


def assigned_log(committed: GroupOffset) -> ReadLog | None:
    """Return what a committed offset says of the log that was read; None if it says nothing."""
    fields = _fields(committed)
    topic_id = _topic_id(fields)
    match fields.get(_READ_TO):
        case [int(read_to), int(epoch)] if 0 <= read_to <= committed.offset:
            pass
        case _:
            read_to, epoch = committed.offset, committed.leader_epoch
    return ReadLog(committed.offset, topic_id, epoch, read_to) if topic_id and epoch >= 0 else None


def is_of_cluster(committed: GroupOffset, cluster: str) -> bool:
    """Say whether an offset was committed in this cluster, for certain: a mirror's copy has metadata but no epoch."""
    return committed.leader_epoch != NO_EPOCH or _fields(committed).get(_CLUSTER) == cluster


def _fields(committed: GroupOffset) -> dict[str, Any]:
    try:
        parsed = orjson.loads(inner_metadata(committed.metadata))
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _topic_id(fields: Mapping[str, Any]) -> str:
    topic_id = fields.get(_TOPIC_ID)
    return topic_id if isinstance(topic_id, str) and _ID.fullmatch(topic_id) else ""


_RESET = "auto.offset.reset"


class PositionReader(Protocol):
    """Reads a member's start positions in place of its client (`StablePositions`)."""

    def read(
        self, places: Collection[TopicPartition], membership: MemberGeneration | None
    ) -> Mapping[TopicPartition, Committed]:
        """Return the group's committed offsets. Partitions without one are left out.

        Called in the member's thread, within a rebalance. `poll` raises its errors.
        """


def nowhere_to_begin(place: TopicPartition, why: str) -> KafkaRequestError:
    """Return the error for a partition without records at its position if no other position may be chosen."""
    return KafkaRequestError(
        f"There is no offset to start from in {place.topic}-{place.partition}: {why}; auto.offset.reset is none: set "
        "the offset (PATCH /connectors/<name>/offsets)",
        KafkaError._AUTO_OFFSET_RESET,
    )


def client_reset(conf: Mapping[str, Any], whole: Collection[str]) -> dict[str, str]:
    """Return the rule of a client that reads topics in `whole` from their earliest record.

    The client has one rule for all topics. With `latest` it would skip records of these.
    """
    return {_RESET: "earliest"} if whole and conf.get(_RESET) == "latest" else {}


class Restart(NamedTuple):
    """Where reading goes on that does not go on where it was.

    A log that was cut may have what was read before `offset`; else what was read is in no log any more.
    """

    offset: int
    is_cut: bool


class StartPositions:
    """The committed offsets of a group, and the edges of logs where there are none."""

    def __init__(self, client: MemberClient, whole: Collection[str], reader: PositionReader | None) -> None:
        """Topics in `whole` start at their earliest record. `reader` reads offsets in place of the client."""
        self._client = client
        self._whole = whole
        self._reader = reader
        self._resets_to = str(client.conf.get(_RESET, "earliest"))
        self.committed: dict[TopicPartition, GroupOffset] = {}
        """The assignment's committed offsets, as of the time of the assignment."""
        self._former: dict[TopicPartition, GroupOffset] = {}  # committed in topics that are gone
        self.known = KnownPositions()
        """The topics and leader epochs of committed offsets, and of what was read after them."""
        self.restarts: dict[TopicPartition, Restart] = {}
        """Where partitions go on that do not go on where they were, since the last `poll`. Its user clears it."""

    def stored(self, places: Sequence[TopicPartition], membership: MemberIdentity | None) -> dict[TopicPartition, int]:
        """Return the group's committed offsets. Partitions without one are left out. Raises KafkaException.

        An offset that was dropped is none.
        """
        found = self._found(places, membership) if places else {}
        stored = {place: each for place, each in found.items() if self._former.get(place) != each}
        self.committed.update(stored)
        return {place: each.offset for place, each in stored.items()}

    def _found(
        self, places: Sequence[TopicPartition], membership: MemberIdentity | None
    ) -> dict[TopicPartition, GroupOffset]:
        if self._reader is not None:
            read = self._reader.read(places, None if membership is None else membership.in_requests())
            return {place: committed.to_group(place) for place, committed in read.items()}
        found = {}
        asked = [ClientPartition(*place) for place in places]
        for each in self._client.consumer.committed(asked, timeout=ASK_S):
            if each.error is not None:
                raise KafkaException(each.error)
            if each.offset >= 0:
                place, epoch = TopicPartition(each.topic, each.partition), each.leader_epoch
                epoch = NO_EPOCH if epoch is None else epoch
                found[place] = GroupOffset(*place, each.offset, _metadata_of(each), epoch)
        return found

    def drop(self, place: TopicPartition) -> None:
        """Count a committed offset as none from now on, as it is of a topic that was created again since."""
        self._former[place] = self.committed.pop(place)

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Forget what is known of partitions that are no longer in the assignment."""
        self.known.forget(places)
        for place in places:
            self.committed.pop(place, None)
            self.restarts.pop(place, None)
            self._former.pop(place, None)

    def reset(self, place: TopicPartition) -> int:
        """Return the start offset of a partition without a committed offset. Raises KafkaException."""
        if self.resets_of(place) == "error":
            raise KafkaRequestError(
                f"Group {self._client.group} has committed nothing for {place.topic}-{place.partition}, and "
                "auto.offset.reset is none: set its offset (PATCH /connectors/<name>/offsets)",
                KafkaError._AUTO_OFFSET_RESET,
            )
        return self.edge(place, *self._client.edges(place, ASK_S))

    def edge(self, place: TopicPartition, begin: int, end: int) -> int:
        """Return the edge of a partition's log at which `auto.offset.reset` starts."""
        return end if self.resets_of(place) == "latest" else max(begin, 0)

    def resets_of(self, place: TopicPartition) -> str:
        """Return the value of `auto.offset.reset` for a partition: earliest, latest or error."""
        return "earliest" if place.topic in self._whole else self._resets_to


def _metadata_of(committed: Any) -> str:
    """Return the metadata of an offset that was committed by a client of this kind.

    The client expects metadata to end with a zero byte, as its own does, and reads past the end of any other, so the
    result may not be text. Only our own metadata matters here.
    """
    try:
        return str(committed.metadata or "")
    except UnicodeDecodeError:
        return ""
