"""What a query reads: the partitions (`subscribe`, `subscribePattern`, `assign`), and where reading begins or ends.

Options in JSON have the form of Spark's own Kafka source: partitions of topics, with a number for each.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import orjson

from fencepost.builtin.transform.java_regex import JavaPattern, compiled
from fencepost.config import ConfigError
from fencepost.record import TopicPartition

if TYPE_CHECKING:
    from fencepost.kafka.admin.topics import Topic, Topics

_PLACES = '{"orders":[0,1]}'
_NUMBERS = '{"orders":{"0":23,"1":-2}}'


def parse_places(option: str, text: str) -> frozenset[TopicPartition]:
    """Return the partitions that an option names. Raises ConfigError."""
    parsed = _parsed(option, text, _PLACES)
    is_right = (
        isinstance(found, list) and found and all(type(each) is int and each >= 0 for each in found)
        for found in parsed.values()
    )
    if not all(is_right):
        raise _wrong(option, text, _PLACES)
    return frozenset(TopicPartition(topic, partition) for topic, found in parsed.items() for partition in found)


def parse_numbers(option: str, text: str, lowest: int) -> dict[TopicPartition, int]:
    """Return the number of each partition in an option, at least `lowest`. Raises ConfigError."""
    parsed = _parsed(option, text, _NUMBERS)
    numbers = {}
    for topic, found in parsed.items():
        if not isinstance(found, dict):
            raise _wrong(option, text, _NUMBERS)
        for partition, number in found.items():
            if not partition.isdecimal() or type(number) is not int or number < lowest:
                raise _wrong(option, text, _NUMBERS)
            numbers[TopicPartition(topic, int(partition))] = number
    if not numbers:
        raise _wrong(option, text, _NUMBERS)
    return numbers


def nested(numbers: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return the JSON form of a number for each partition, in order."""
    found: dict[str, dict[str, int]] = {}
    for place in sorted(numbers):
        found.setdefault(place.topic, {})[str(place.partition)] = numbers[place]
    return found


def flat(numbers: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Return the numbers by partition, from the form of `nested`."""
    return {TopicPartition(t, int(p)): number for t, found in numbers.items() for p, number in found.items()}


def positions(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return the offsets in the position of a stream in a checkpoint, which has the ids of topics, too."""
    return flat({topic: found for topic, found in progress.items() if not topic.startswith("/")})


def _parsed(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict) or not parsed:
        raise _wrong(option, text, example)
    return parsed


def _wrong(option: str, text: str, example: str) -> ConfigError:
    return ConfigError(f"option {option} is {text}: write it as in {example}")


class Edge(IntEnum):
    """The two named positions, and the numbers that represent them among offsets."""

    LATEST = -1
    EARLIEST = -2


@dataclass(frozen=True)
class Bound:
    """An offset or an `Edge` for each partition (`offsets`), or a time (`times_ms`); a single number applies to all."""

    option: str
    offsets: Mapping[TopicPartition, int] | Edge | None = None
    times_ms: Mapping[TopicPartition, int] | int | None = None

    @property
    def named(self) -> Mapping[TopicPartition, int] | None:
        """Return the partitions with their own positions; None if one position applies to all."""
        for said in (self.offsets, self.times_ms):
            if isinstance(said, Mapping):
                return said
        return None

    def says(self, edge: Edge) -> list[str]:
        """Return a text that names the partitions at `edge`."""
        if isinstance(self.offsets, Mapping):
            return [f"{p.topic}-{p.partition}" for p, offset in sorted(self.offsets.items()) if offset == edge]
        return ["every partition"] if self.offsets is edge else []


def everywhere(edge: Edge, option: str = "") -> Bound:
    """Return the bound that is this edge in all partitions."""
    return Bound(option, offsets=edge)


def by_offset(option: str, text: str) -> Bound:
    """Parse `earliest`, `latest` or JSON. Raises ConfigError."""
    word = text.strip().upper()
    if word in Edge.__members__:
        return everywhere(Edge[word], option)
    if not text.strip().startswith("{"):
        raise ConfigError(f"option {option} is {text}: it must be earliest, latest or JSON")
    return Bound(option, offsets=parse_numbers(option, text, Edge.EARLIEST))


def by_time(option: str, said: str | int) -> Bound:
    """Parse a time in milliseconds, or JSON with one for each partition. Raises ConfigError."""
    return Bound(option, times_ms=said if isinstance(said, int) else parse_numbers(option, said, 0))


@dataclass(frozen=True)
class Choice:
    """The value of one of these options: either `names` or a `pattern` of names; `places` if only these are meant."""

    option: str
    names: tuple[str, ...] = ()
    pattern: JavaPattern | None = None
    places: frozenset[TopicPartition] | None = None

    def topics(self, of: "Topics") -> "dict[str, Topic]":
        """Return the chosen topics among those that exist."""
        if self.pattern is None:
            return of.get_all(self.names)
        is_meant = self.pattern.fullmatch
        return of.get_all([name for name in of.names() if is_meant(name)])

    def partitions(self, topics: "Mapping[str, Topic]") -> frozenset[TopicPartition]:
        """Return the chosen partitions that exist in these topics."""
        found = frozenset(TopicPartition(name, p) for name, topic in topics.items() for p in range(topic.partitions))
        return found if self.places is None else found & self.places

    def missing(self, topics: "Mapping[str, Topic]") -> list[str]:
        """Return a text that names the chosen topics and partitions that do not exist."""
        gone = [f"topic {name}" for name in self.names if name not in topics]
        if gone or self.places is None:
            return gone
        return [f"partition {p.topic}-{p.partition}" for p in sorted(self.places - self.partitions(topics))]


def _subscribe(option: str, text: str) -> Choice:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError(f"option {option} is empty: name topics, joined by commas")
    return Choice(option, names)


def _subscribe_pattern(option: str, text: str) -> Choice:
    if not text.strip():
        raise ConfigError(f"option {option} is empty: give a regular expression of topic names")
    try:
        return Choice(option, pattern=compiled(text.strip()))
    except re.error as error:
        raise ConfigError(f"option {option} is not a regular expression: {error}") from None


def _assign(option: str, text: str) -> Choice:
    places = parse_places(option, text)
    return Choice(option, tuple(sorted({place.topic for place in places})), places=places)


CHOICES: Mapping[str, Callable[[str, str], Choice]] = {
    "subscribe": _subscribe,
    "subscribePattern": _subscribe_pattern,
    "assign": _assign,
}
