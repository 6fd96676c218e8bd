"""Gaps in a log: it has no records at a reader's position, because they are gone or the topic was created again."""

from dataclasses import dataclass
from enum import Enum

from fencepost.record import TopicPartition

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
