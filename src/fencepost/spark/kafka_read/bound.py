"""Where reading begins or ends, as an option says it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from fencepost.config import ConfigError
from fencepost.record import TopicPartition
from fencepost.spark.kafka_read.place_json import parse_numbers


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
