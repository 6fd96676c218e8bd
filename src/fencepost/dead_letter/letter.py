"""A dead letter: a record of a dead letter topic, with what its headers say."""

import json
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from fencepost.config import ConfigError
from fencepost.kafka.read.browse import TopicRecord
from fencepost.task.failure.dead_letter import (
    CONNECTOR,
    CONTEXT,
    OFFSET,
    PARTITION,
    PREFIX,
    RESENT,
    RESENT_OFFSET,
    RESENT_PARTITION,
    RESENT_TIMESTAMP,
    RESENT_TOPIC,
    TIMESTAMP,
    TOPIC,
    number_of,
)

_DEEPEST = 100
_BEFORE = {TOPIC: RESENT_TOPIC, PARTITION: RESENT_PARTITION, OFFSET: RESENT_OFFSET}
_PLACE = re.compile(r"-(\d{1,9})@(\d{1,18})", re.ASCII)


@dataclass(frozen=True)
class DeadLetter:
    """One record of a dead letter topic, with its context headers as `facts`, which may be empty."""

    topic: str
    record: TopicRecord
    facts: dict[str, str] = field(repr=False)
    time_ms: int | None = None
    """When the failed record was written; if it was resent, when it was first written."""

    @classmethod
    def of(cls, topic: str, record: TopicRecord) -> "DeadLetter":
        """Parse a record's headers. If a name occurs twice, the last one counts, as in Kafka Connect."""
        texts = {name: (data or b"").decode("utf-8", "replace") for name, data in record.headers if _is_ours(name)}
        facts = {name: text for name, text in texts.items() if name.startswith(PREFIX)}
        if facts and RESENT_TOPIC in texts:  # a resent record failed again: its first origin counts, as a whole
            facts |= {name: texts.get(before, "") for name, before in _BEFORE.items()}
        times = (number_of(texts.get(name, "")) for name in (RESENT_TIMESTAMP, TIMESTAMP))
        time_ms = next((each for each in times if each is not None), record.timestamp_ms)
        return cls(topic, record, facts, time_ms)

    @property
    def place(self) -> str:
        """Return where the dead letter is, in the notation for people."""
        return f"{self.topic}-{self.record.partition}@{self.record.offset}"

    @property
    def connector(self) -> str | None:
        """Return the name of its connector; None if no header has it."""
        return self.facts.get(CONNECTOR)

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Return the record's own headers: all before those about the failure, which end a dead letter.

        A record that was read from a dead letter topic has headers about another failure, which are its own.
        """
        found, later = list(self.record.headers), list(CONTEXT)
        while found and found[-1][0] in later:
            later = later[: later.index(found.pop()[0])]
        if found and found[-1][0] == TIMESTAMP:
            found.pop()
        return [(name, data) for name, data in found if not name.startswith(RESENT)]

    @property
    def origin(self) -> tuple[str, int] | None:
        """Return the topic and partition that a sink read the record from; None if no header has them."""
        topic, partition = self.facts.get(TOPIC), number_of(self.facts.get(PARTITION, ""))
        return (topic, partition) if topic and partition is not None else None

    @property
    def resent_headers(self) -> list[tuple[str, bytes | None]]:
        """Return headers by which the sink treats a resent record as one of its original topic."""
        origin = ((now, self.facts.get(name, "").encode()) for name, now in _BEFORE.items())
        return [*self.headers, *origin, *self._time]

    @property
    def copied_headers(self) -> list[tuple[str, bytes | None]]:
        """Return the headers of a copy for all readers of the original topic."""
        return [*self.headers, *self._time]

    @property
    def _time(self) -> list[tuple[str, bytes | None]]:
        return [] if self.time_ms is None else [(RESENT_TIMESTAMP, b"%d" % self.time_ms)]


def parsed(fact: str | None) -> Any:
    """Return a number, or a source's position, parsed from JSON; other text unchanged.

    Whoever can write to the topic can nest what no printer of JSON could follow, or write NaN, or a number that becomes
    infinity, which other readers of JSON refuse: these stay text, too.
    """
    if fact is None or fact.count("[") + fact.count("{") > _DEEPEST:
        return fact
    try:
        found = json.loads(fact)
        json.dumps(found, allow_nan=False)
    except ValueError:
        return fact
    return found


def _is_ours(name: str) -> bool:
    return name.startswith((PREFIX, RESENT)) or name == TIMESTAMP


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
