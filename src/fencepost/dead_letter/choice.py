"""Which of the waiting dead letters a resend is about, and which of these are passed over instead."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.config import ConfigError
from fencepost.dead_letter.letter import DeadLetter

_PLACE = re.compile(r"-(\d{1,9})@(\d{1,18})", re.ASCII)


@dataclass(frozen=True)
class Skipped:
    """Dead letters that are not to be sent, by their places and by the topics that they came from."""

    places: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()

    @classmethod
    def of(cls, named: Iterable[str]) -> "Skipped":
        """Parse a user's names: `orders-dead-0@4` is a dead letter, a name without @ is a topic."""
        names = frozenset(named)
        return cls(frozenset(n for n in names if "@" in n), frozenset(n for n in names if "@" not in n))

    def has(self, dead_letter: DeadLetter) -> bool:
        return dead_letter.place in self.places or (
            dead_letter.origin is not None and dead_letter.origin[0] in self.topics
        )


class Selection:
    """Single dead letters of a topic: offsets, by partition."""

    def __init__(self, topic: str, places: Iterable[str]) -> None:
        """Parse places such as `orders-dead-0@4`. Raises ConfigError if one is no place in the topic."""
        self._offsets: dict[int, set[int]] = {}
        for place in places:
            found = _PLACE.fullmatch(place.removeprefix(topic)) if place.startswith(topic) else None
            if found is None:
                raise ConfigError(f"{place} is no dead letter in {topic}: name it as {topic}-0@4")
            self._offsets.setdefault(int(found[1]), set()).add(int(found[2]))

    def has(self, dead_letter: DeadLetter) -> bool:
        return dead_letter.record.offset in self._offsets.get(dead_letter.record.partition, ())

    def end(self, partition: int) -> int:
        """Return the offset after the last one of a partition; 0 if none is chosen there."""
        return max(self._offsets.get(partition, ()), default=-1) + 1
