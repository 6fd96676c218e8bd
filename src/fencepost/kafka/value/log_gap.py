"""Where a log does not go on at the position of who reads it: what there was is gone, or the log is another one."""

from dataclasses import dataclass
from enum import Enum

from fencepost.record import TopicPartition

NO_EPOCH = -1


class GapKind(Enum):
    """Why a reader cannot go on where it stands."""

    TRUNCATED = "the log begins beyond the position"
    RECREATED = "the topic was deleted and created again"
    CUT = "the log ends before the position"
    DIVERGED = "what was read there is not in the log any more: an unclean election has cut it, and it has grown since"


@dataclass(frozen=True, slots=True)
class LogGap:
    """A partition that is not read on: the reader stands at `position`, the log goes from `start` to before `end` now.

    `topic_id` is the topic's that there is now.
    """

    place: TopicPartition
    kind: GapKind
    position: int
    start: int
    end: int
    topic_id: str = ""

    def __str__(self) -> str:
        topic, partition = self.place
        return (
            f"{topic}-{partition} was read up to offset {self.position}, and {self.kind.value}: "
            f"it has offsets {self.start} to {self.end} now"
        )


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The offset of the next record to read; an empty `topic_id` fits a topic with any id.

    `epoch` is that of the leader that took what lies before it, NO_EPOCH where that is not known. By it brokers tell
    whether that is in the log still (KIP-320).
    """

    offset: int
    topic_id: str = ""
    epoch: int = NO_EPOCH
