"""A range of a partition, as who plans and who reads speak of it; neither needs the other's libraries."""

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.record import TopicPartition


@dataclass(frozen=True, slots=True)
class LogRange:
    """The offsets of a partition from `start` to before `end`; `topic_id` tells a topic from a later one of its name.

    An empty `topic_id` is not compared.
    """

    place: TopicPartition
    start: int
    end: int
    topic_id: str = ""

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"offsets {self.start} to {self.end - 1} of {self.place.topic}-{self.place.partition}"


def shares(waiting: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """Return how many of the offsets that wait in each partition to take, so that they are about `most` in all.

    Each partition gives the same share of its own, but one at least.
    """
    total = sum(waiting.values())
    if total <= most:
        return dict(waiting)
    return {place: max(1, size * most // total) for place, size in waiting.items()}
