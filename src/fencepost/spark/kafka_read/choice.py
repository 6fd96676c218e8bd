"""Which partitions to read: the options `subscribe`, `subscribePattern` and `assign`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.builtin.transform.java_regex import JavaPattern, compiled
from fencepost.config import ConfigError
from fencepost.record import TopicPartition
from fencepost.spark.kafka_read.place_json import parse_places

if TYPE_CHECKING:
    from fencepost.kafka.admin.topics import Topic, Topics


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
