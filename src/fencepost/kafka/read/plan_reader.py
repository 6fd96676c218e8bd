"""The port for reading partitions.

A reader fetches the records after given positions. Its user finds out what a missing position means, and which topic
records belong to.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import KafkaError

from fencepost.kafka.errors import translate
from fencepost.kafka.read.consumer import OffsetCommitter
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import LogPosition
from fencepost.record import TopicPartition

DOING = "reading partitions of a plan"


@dataclass
class Read:
    """The result of one read: the records, and in `away` why no broker can be reached.

    `lost` are partitions without records at their position. `cut` are those of them whose last read records are no
    longer in the log, with the position up to which the log is still what was read. `replaced` are those whose topic
    was deleted and created again, as one broker says. `refused` are topics that the principal may not read, with the
    reason. `obstacle` says why nothing comes, also if that passes; empty if it is not known. `throttled_until_s` is
    until when a broker's quota lets nothing arrive, as far as that was noticed.
    """

    fetched: Fetched = field(default_factory=Fetched)
    lost: set[TopicPartition] = field(default_factory=set)
    cut: dict[TopicPartition, LogPosition] = field(default_factory=dict)
    replaced: set[TopicPartition] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    away: str | None = None
    obstacle: str = ""
    throttled_until_s: float = 0.0

    def ensure_allowed(self, doing: str, bootstrap: str) -> None:
        """Raise KafkaAuthorizationError if a topic is refused, for readers that need all of theirs."""
        for topic in self.refused:
            error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, f"{topic}: Topic authorization failed")
            raise translate(error, doing, bootstrap)


class PlanReader(Protocol):
    """Reads partitions. For one thread. Nothing connects before the first `read`."""

    @property
    def commits(self) -> OffsetCommitter:
        """Return the committer to the group that the settings name. `read` processes the answers."""

    @property
    def knows_topics(self) -> bool:
        """Return whether brokers have ensured that all records so far are from the topics with the given ids.

        If False, records are from topics with the given names.
        """

    def assign(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Read these partitions in addition, from these positions."""

    def unassign(self, places: Collection[TopicPartition]) -> None:
        """Stop reading these partitions. No more of their records are returned."""

    def read(self, timeout_s: float, most: int, most_bytes: int | None = None) -> Read:
        """Return fetched records, waiting up to `timeout_s` for the first. The record that reaches a limit is the last.

        `fetched.ends` are the ends of partitions, or positions that advanced without a record. A `lost` partition has
        nothing at its position, or something else than what was read before; it is not read until it is assigned
        again. Raises a refusal as converted by `translate`. Waits for a broker that is down.
        """

    def close(self) -> None:
        """Let go. Idempotent."""
