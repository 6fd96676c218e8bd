"""Places in logs: offsets of groups, ranges of partitions, and gaps. Importing this needs no client library.

In a gap, a log has no records at a reader's position, because they are gone or the topic was created again.

A member that commits offsets is named by group metadata, which the client returns as opaque bytes: a magic prefix; the
generation, in four bytes of this machine's byte order; the group id and the member id; one byte, 0 if an instance id
follows; the instance id, if there is one. Each id ends with a zero byte (seen on confluent-kafka 2.16.1).
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from fencepost.api.errors import FatalError
from fencepost.record import TopicPartition

FORGOTTEN = "forgotten"
"""The metadata of an offset that counts as deleted: a transaction can commit offsets but not delete them."""

_MARK = b"CGMDv2:"
_NOT_JOINED = -1
_NAMES_AT = len(_MARK) + 4


class GroupOffset(NamedTuple):
    """The offset of the next record of a partition, and what is committed with it.

    `metadata` is any text. `leader_epoch` is that of the record before the offset; -1 if it is not known.
    """

    topic: str
    partition: int
    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class LogRange:
    """The offsets of a partition from `start` up to before `end`.

    `topic_id` distinguishes a topic from a later one with the same name. An empty `topic_id` is not compared. `led` is
    the epoch and the node of the newest leader that the planner knew; -1 if it knew none.
    """

    place: TopicPartition
    start: int
    end: int
    topic_id: str = ""
    led: tuple[int, int] = (-1, -1)

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end - 1} of {self.place.topic}-{self.place.partition}"


def shares(waiting: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """Return how many of the waiting offsets to take from each partition, about `most` in total.

    Each partition contributes the same fraction of its waiting offsets, and at least one.
    """
    total = sum(waiting.values())
    if total <= most:
        return dict(waiting)
    return {place: max(1, size * most // total) for place, size in waiting.items()}


NO_EPOCH = -1


class GapKind(Enum):
    """Why a reader cannot continue at its position."""

    TRUNCATED = "the log begins beyond the position"
    RECREATED = "the topic was deleted and created again"
    CUT = "the log ends before the position"
    DIVERGED = "what was read is gone: an unclean leader election cut the log, which has grown since"


@dataclass(frozen=True, slots=True)
class LogGap:
    """A partition that cannot be read further: the reader is at `position`; the log now has `start` up to before `end`.

    `topic_id` is that of the present topic. `common` is the end of what a log that was cut has in common with what was
    read.
    """

    place: TopicPartition
    kind: GapKind
    position: int
    start: int
    end: int
    topic_id: str = ""
    common: int = 0

    @property
    def is_of_cut_log(self) -> bool:
        return self.kind in (GapKind.CUT, GapKind.DIVERGED)

    @property
    def next_offset(self) -> int:
        """Return the offset of the first record that was not read."""
        return self.common if self.is_of_cut_log else self.start

    def __str__(self) -> str:
        topic, partition = self.place
        common = f", of which those before {self.common} are what was read" if self.is_of_cut_log else ""
        return (
            f"{topic}-{partition} was read up to offset {self.position}, and {self.kind.value}: "
            f"it has offsets {self.start} to {self.end} now{common}"
        )


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The offset of the next record to read. An empty `topic_id` matches any topic id.

    `epoch` is the leader epoch of the record before that offset; NO_EPOCH if it is not known. From it brokers know
    whether that record is still in the log (KIP-320).
    """

    offset: int
    topic_id: str = ""
    epoch: int = NO_EPOCH


class Committer(NamedTuple):
    """The identity that commits offsets to a group. Without a member, `generation` is -1 and `member_id` is empty."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


def committer_of(metadata: bytes) -> Committer:
    """Parse the whole metadata. Raises FatalError if the bytes have another format."""
    generation = generation_of(metadata)
    names = metadata[_NAMES_AT:].split(b"\0", 2)
    if len(names) < 3 or names[2][:1] not in (b"\0", b"\1"):
        raise _unknown_form()
    group_id, member_id, instance = names
    has_instance = instance[:1] == b"\0"
    return Committer(
        group_id.decode(),
        _NOT_JOINED if generation is None else generation,
        member_id.decode(),
        instance[1:].rstrip(b"\0").decode() if has_instance else None,
    )


class MemberGeneration(NamedTuple):
    """A member of a group, in one of its generations."""

    generation: int
    member_id: str


def generation_of(metadata: bytes) -> int | None:
    """Return the generation of the group; None if the member has not joined.

    Raises FatalError if the bytes have another format: metadata that cannot be parsed must not serve as a fence.
    """
    if not metadata.startswith(_MARK) or len(metadata) < _NAMES_AT:
        raise _unknown_form()
    found = int.from_bytes(metadata[len(_MARK) : _NAMES_AT], sys.byteorder, signed=True)
    return None if found == _NOT_JOINED else found


def _unknown_form() -> FatalError:
    return FatalError("the client's group metadata has an unknown format: install an older confluent-kafka")
