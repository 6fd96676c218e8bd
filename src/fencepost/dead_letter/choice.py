"""Which of the waiting dead letters a resend is about, and which of these are passed over instead."""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from fencepost.config import ConfigError
from fencepost.dead_letter.letter import DeadLetter
from fencepost.task.failure.dead_letter import TOPIC

_PLACE = re.compile(r"-(\d{1,9})@(\d{1,18})", re.ASCII)


@dataclass(frozen=True)
class Skipped:
    """Dead letters that are not to be sent, by their places and by the topics that they came from.

    `places` has a partition and an offset by name.
    """

    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()

    @classmethod
    def of(cls, topic: str, named: Iterable[str]) -> "Skipped":
        """Parse a user's names: `orders-dead-0@4` is a dead letter in the topic, a name without @ a topic.

        Raises ConfigError if one is no place in the topic: with a wrong name, what is to be passed over would be sent.
        """
        names = frozenset(named)
        offsets = _offsets(topic, (name for name in names if "@" in name))
        places = {f"{topic}-{partition}@{one}": (partition, one) for partition, each in offsets.items() for one in each}
        return cls(places, frozenset(n for n in names if "@" not in n))

    def has(self, dead_letter: DeadLetter) -> bool:
        return bool(self.met(dead_letter))

    def met(self, dead_letter: DeadLetter) -> Set[str]:
        """Return the names that a dead letter has, of those that are passed over."""
        return ({dead_letter.place} & self.places.keys()) | ({dead_letter.facts.get(TOPIC, "")} & self.topics)


class Selection:
    """Single dead letters of a topic: offsets, by partition."""

    def __init__(self, topic: str, places: Iterable[str]) -> None:
        """Parse places such as `orders-dead-0@4`. Raises ConfigError if one is no place in the topic."""
        self.offsets = _offsets(topic, places)

    def has(self, dead_letter: DeadLetter) -> bool:
        return dead_letter.record.offset in self.offsets.get(dead_letter.record.partition, ())

    def end(self, partition: int) -> int:
        """Return the offset after the last one of a partition; 0 if none is chosen there."""
        return max(self.offsets.get(partition, ()), default=-1) + 1


def _offsets(topic: str, places: Iterable[str]) -> dict[int, set[int]]:
    offsets: dict[int, set[int]] = {}
    for place in places:
        found = _PLACE.fullmatch(place.removeprefix(topic)) if place.startswith(topic) else None
        if found is None:
            raise ConfigError(f"{place} is no dead letter in {topic}: name it as {topic}-0@4")
        offsets.setdefault(int(found[1]), set()).add(int(found[2]))
    return offsets
