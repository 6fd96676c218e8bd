"""A range of a partition, shared by planners and readers so that neither imports the other's libraries."""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.record import TopicPartition


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
