"""Plans the records of an epoch, and keeps the plan with the group's offsets. Makes no requests.

A plan is durable before its first write: each offset of the group carries metadata with the end of the epoch that
begins there. That of all its partitions is committed together, and the coordinator accepts it only from a member of the
newest generation. So a successor finds the same ranges, and no other member can plan different ones (E16).
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fencepost.api import Epoch, OffsetRange
from fencepost.kafka.group.group_offsets import inner_metadata
from fencepost.kafka.value.position import NO_EPOCH, GroupOffset, shares
from fencepost.record import TopicPartition

EPOCH_METADATA_MAX_BYTES = 4_000
"""The maximal length of the metadata of one offset: a broker accepts 4,096 bytes (offset.metadata.max.bytes)."""

COMMIT_METADATA_MAX_BYTES = 400_000
"""The maximal size of all metadata in one commit, which is one batch of the group's log: a broker accepts 1 MiB
(message.max.bytes)."""
PARTITION_METADATA_BYTES = (
    340  # in the group's log, without the topic: group name, metadata with a short token, and framing
)
_ROOM_BYTES = 64


@dataclass(frozen=True)
class EpochMetadata:
    """The text committed with an offset: the newest epoch's number and, until it is committed, its details.

    `epoch` distinguishes it from others of the same number; `start` and `end` are its range in the partition. `schema`
    is the id, in a schema registry, of the schema by which its values are read. `topic_id` is that of the topic.
    Metadata whose offset was moved has no effect.
    """

    number: int = 0
    epoch: str | None = None
    start: int | None = None
    end: int | None = None
    token: str | None = None
    schema: int | None = None
    topic_id: str | None = None

    def to_text(self) -> str:
        fields: dict[str, object] = {k: v for k, v in vars(self).items() if v is not None}
        if self.end is not None and self.token is None:
            fields["room"] = "." * (_ROOM_BYTES + 1)  # one more, as "token" is a longer name
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def of_text(cls, text: str) -> "EpochMetadata":
        """Read committed metadata. Text that others have committed counts as empty."""
        try:
            found = json.loads(text)
            keys = ("epoch", "start", "end", "token", "schema", "topic_id")
            metadata = cls(int(found["number"]), *(found.get(key) for key in keys))
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()
        numbers = (metadata.start, metadata.end, metadata.schema)
        texts = (metadata.epoch, metadata.token, metadata.topic_id)
        is_ours = all(isinstance(n, int | None) for n in numbers) and all(isinstance(t, str | None) for t in texts)
        return metadata if is_ours else cls()


@dataclass(frozen=True)
class EpochOffset:
    """The group's committed offset in a partition, with its metadata.

    `leader_epoch` is that of a leader whose log had everything up to the offset, or up to the end of the epoch that
    begins there. It counts only with the topic's id, and the id only with it: mirrors of groups copy metadata to other
    clusters, but no leader epochs.
    """

    offset: int
    metadata: EpochMetadata = EpochMetadata()
    leader_epoch: int = NO_EPOCH

    @classmethod
    def of(cls, committed: GroupOffset) -> "EpochOffset":
        metadata = EpochMetadata.of_text(inner_metadata(committed.metadata))
        return cls(committed.offset, metadata, committed.leader_epoch)

    def to_commit(self, place: TopicPartition) -> GroupOffset:
        return GroupOffset(*place, self.offset, self.metadata.to_text(), self.leader_epoch)

    @property
    def has_known_log(self) -> bool:
        return bool(self.metadata.topic_id) and self.leader_epoch != NO_EPOCH

    @property
    def is_open(self) -> bool:
        """Say whether an epoch that has not ended begins there."""
        return self.metadata.end is not None and self.metadata.start == self.offset < self.metadata.end


EpochOffsets = Mapping[TopicPartition, EpochOffset]


@dataclass(frozen=True)
class OpenEpoch:
    """An epoch whose plan is durable; with its token once what was written for it is to be published.

    `schemas`: by topic, the ids of the schemas in a registry by which values are read, if they are read by one.
    `topic_ids`: the ids of its topics, as far as they are known. `leader_epochs`: those of leaders whose logs had its
    ranges.
    """

    epoch: Epoch
    token: str | None = None
    schemas: Mapping[str, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    def with_number(self, number: int) -> "OpenEpoch":
        return replace(self, epoch=replace(self.epoch, number=number))

    def with_token(self, token: str) -> "OpenEpoch":
        return replace(self, token=token)

    def with_schemas(self, schemas: Mapping[str, int]) -> "OpenEpoch":
        return replace(self, schemas=schemas)

    def offsets(self) -> dict[TopicPartition, EpochOffset]:
        """Return the offsets to commit for the epoch while it is in progress."""
        epoch = self.epoch
        metadata = {
            each.place: EpochMetadata(
                epoch.number,
                epoch.id,
                each.start,
                each.end,
                self.token,
                self.schemas.get(each.topic),
                self.topic_ids.get(each.topic),
            )
            for each in epoch.ranges
        }
        return {each.place: self._offset(each.place, each.start, metadata[each.place]) for each in epoch.ranges}

    def ended(self) -> dict[TopicPartition, EpochOffset]:
        """Return the offsets to commit when it ends."""
        return {each.place: self.without(each.place, each.end) for each in self.epoch.ranges}

    def without(self, place: TopicPartition, offset: int) -> EpochOffset:
        """Return an offset in a partition in which the epoch is no longer open."""
        return self._offset(place, offset, self.ended_metadata(place.topic))

    def _offset(self, place: TopicPartition, offset: int, metadata: EpochMetadata) -> EpochOffset:
        return EpochOffset(offset, metadata, self.leader_epochs.get(place, NO_EPOCH))

    def ended_metadata(self, topic: str) -> EpochMetadata:
        """Return the metadata of an offset in the topic once the epoch is no longer open there."""
        return EpochMetadata(self.epoch.number, topic_id=self.topic_ids.get(topic))


def begun(offsets: EpochOffsets) -> OpenEpoch | None:
    """Return the oldest epoch in progress, or None."""
    return next(iter(all_begun(offsets)), None)


def all_begun(offsets: EpochOffsets) -> list[OpenEpoch]:
    """Return the epochs in progress, the oldest first.

    An epoch from which partitions were removed has only the remaining ones. They share its token, so that what is
    already published is not written again.
    """
    open_: dict[tuple[int, str], dict[TopicPartition, EpochOffset]] = {}
    for place, offset in offsets.items():
        if offset.is_open:
            open_.setdefault((offset.metadata.number, offset.metadata.epoch or ""), {})[place] = offset
    return [_begun(*key, own) for key, own in sorted(open_.items())]


def _begun(number: int, id_: str, own: EpochOffsets) -> OpenEpoch:
    ranges = sorted(OffsetRange(*place, s.offset, s.metadata.end or 0) for place, s in own.items())
    schemas = {place.topic: s.metadata.schema for place, s in own.items() if s.metadata.schema is not None}
    token = next(iter(own.values())).metadata.token
    return OpenEpoch(Epoch(number, tuple(ranges), id_), token, schemas, _topic_ids(own), _leader_epochs(own))


def _topic_ids(offsets: EpochOffsets) -> dict[str, str]:
    return {place.topic: s.metadata.topic_id or "" for place, s in offsets.items() if s.has_known_log}


def _leader_epochs(offsets: EpochOffsets) -> dict[TopicPartition, int]:
    return {place: s.leader_epoch for place, s in offsets.items() if s.has_known_log}


def has_room(token: str) -> bool:
    """Say whether the metadata reserves enough bytes for a token, so that its commit is no larger than the plan's."""
    return len(json.dumps(token)) - len('""') <= _ROOM_BYTES


def decided(offsets: EpochOffsets) -> dict[TopicPartition, EpochOffset]:
    """Return the entries of open epochs that only remain to be published."""
    return {place: s for place, s in offsets.items() if s.is_open and s.metadata.token is not None}


def tokens(offsets: EpochOffsets) -> set[str]:
    """Return the tokens of all epochs that only remain to be published."""
    return {s.metadata.token for s in decided(offsets).values() if s.metadata.token is not None}


def newest(offsets: EpochOffsets) -> int:
    """Return the number of the newest epoch."""
    return max((s.metadata.number for s in offsets.values()), default=0)


def planned(
    offsets: EpochOffsets,
    ends: Mapping[TopicPartition, int],
    rows_max: int,
    known: int = 0,
    metadata_max_bytes: int | None = None,
) -> OpenEpoch | None:
    """Return the next epoch, from the group's offsets up to at most these ends; None if there is nothing new.

    If there are more than `rows_max` records, by their offsets, each partition contributes the same share of its own.
    If there are too many partitions for the metadata of one commit, those whose last epoch is oldest come first. The
    number is above `known`, and above all numbers of the group.
    """
    new = {place: ends[place] - s.offset for place, s in offsets.items() if ends.get(place, 0) > s.offset}
    if metadata_max_bytes is not None:
        new = _fitting(new, offsets, metadata_max_bytes)
    if not new:
        return None
    taken = shares(new, rows_max)
    ranges = sorted(
        OffsetRange(*place, offsets[place].offset, offsets[place].offset + count) for place, count in taken.items()
    )
    epoch = Epoch(1 + max(known, newest(offsets)), tuple(ranges), uuid.uuid4().hex[:8])
    own = {place: offsets[place] for place in taken}
    return OpenEpoch(epoch, topic_ids=_topic_ids(own), leader_epochs=_leader_epochs(own))


def halved(epoch: OpenEpoch) -> dict[TopicPartition, EpochOffset]:
    """Return the offsets whose commit removes half of the ranges from an epoch that is not decided."""
    left_out = epoch.epoch.ranges[len(epoch.epoch.ranges) // 2 :]
    return {each.place: epoch.without(each.place, each.start) for each in left_out}


def _fitting(new: Mapping[TopicPartition, int], offsets: EpochOffsets, max_bytes: int) -> dict[TopicPartition, int]:
    kept: dict[TopicPartition, int] = {}
    for place in sorted(new, key=lambda place: (offsets[place].metadata.number, -new[place], place)):
        max_bytes -= PARTITION_METADATA_BYTES + len(place.topic)
        if kept and max_bytes < 0:
            break
        kept[place] = new[place]
    return kept


class _Seen(NamedTuple):
    """Records below `end` are known to wait since `since_s`."""

    end: int
    since_s: float


class Ripeness:
    """Finds partitions with enough new records, or with records that have waited long enough."""

    def __init__(self, rows_min: int, wait_s: float) -> None:
        self._rows_min = rows_min
        self._wait_s = wait_s
        self._first: dict[TopicPartition, _Seen] = {}

    def ripe(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], now_s: float
    ) -> dict[TopicPartition, int]:
        """Return how many records are new in partitions that contribute to an epoch now; the longest wait comes first.

        `offsets`: the group's committed offsets; `ends`: the ends of the logs.
        """
        new = {place: ends[place] - offset for place, offset in offsets.items() if ends[place] > offset}
        kept = {p: seen for p, seen in self._first.items() if p in new and seen.end > offsets[p]}
        self._first = {place: kept.get(place) or _Seen(ends[place], now_s) for place in new}
        since = {place: seen.since_s for place, seen in self._first.items()}
        found = [p for p, count in new.items() if count >= self._rows_min or now_s - since[p] >= self._wait_s]
        return {place: new[place] for place in sorted(found, key=lambda place: (since[place], place))}

    def taken(self, ripe: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
        """Return how many records an epoch takes from each, `most` in total, without too small a piece.

        If not all of them can contribute enough, the first ones are preferred. Without a minimum everything is taken.
        """
        if self._rows_min <= 1:
            return dict(ripe)
        taken, left = {}, most
        chosen = sorted(list(ripe)[: max(1, most // self._rows_min)], key=lambda place: ripe[place])
        for number, place in enumerate(chosen):  # one with less than an even share leaves the rest to the others
            taken[place] = min(ripe[place], left // (len(chosen) - number))
            left -= taken[place]
        return taken
