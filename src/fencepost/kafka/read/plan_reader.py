"""The port for reading the partitions of a plan, and its implementation with librdkafka.

A reader fetches the records after given positions. `PlanInput` finds out what a missing position means, and which topic
records belong to.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.errors import translate
from fencepost.kafka.read.consumer import is_passing, place_of
from fencepost.kafka.read.offset_committer import OffsetCommitter
from fencepost.kafka.read.read_again import read_again_by
from fencepost.kafka.value.fetched import Fetched, is_plain, last_epochs
from fencepost.kafka.value.log_gap import NO_EPOCH, LogPosition
from fencepost.record import TopicPartition

DOING = "reading partitions of a plan"

_CHUNK = 500
# The client's only sign of a log that was cut, in the error of a position reset.
_CUT = re.compile(r"log truncation detected.*broker end offset is (\d+) \(offset leader epoch (-?\d+)\)")


@dataclass
class Read:
    """The result of one read: the records, and in `away` why no broker can be reached.

    `lost` are partitions without records at their position. `cut` are those of them whose last read records are no
    longer in the log, with the position up to which the log is still what was read. `replaced` are those whose topic
    was deleted and created again, as one broker says.
    """

    fetched: Fetched = field(default_factory=Fetched)
    lost: set[TopicPartition] = field(default_factory=set)
    cut: dict[TopicPartition, LogPosition] = field(default_factory=dict)
    replaced: set[TopicPartition] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    away: str | None = None


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


class ClientReader:
    """Reads with librdkafka, record by record. It addresses topics by name."""

    knows_topics = False

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Create the client. Raises KafkaRequestError for settings that it refuses."""
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._read_again = read_again_by(conf)
        self._chunks: list[Fetched] = []  # fetched, but not returned yet
        self._kept: list[Any] = []  # messages for which there was no room
        self._found = Read()
        self.commits = OffsetCommitter(conf)
        self._consumer = self.commits.client()

    def assign(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        self._consumer.incremental_assign([_placed(place, at) for place, at in positions.items()])

    def unassign(self, places: Collection[TopicPartition]) -> None:
        gone = set(places)
        self._kept = [each for each in self._kept if (each.topic(), each.partition()) not in gone]
        self._consumer.incremental_unassign([ClientPartition(*place) for place in places])

    def read(self, timeout_s: float, most: int, most_bytes: int | None = None) -> Read:
        """Fetch in chunks: with many messages at once Python's garbage collector would visit each of them."""
        if not self._chunks:  # else an error occurred after them
            self._take(timeout_s, most, most_bytes)
        found, self._found = self._found, Read()
        found.fetched, self._chunks = Fetched.joined(self._chunks), []
        return found

    def _take(self, timeout_s: float, most: int, most_bytes: int | None) -> None:
        left_bytes = float("inf") if most_bytes is None else most_bytes
        while most > 0 and left_bytes > 0:
            chunk = min(most, _CHUNK)
            messages, self._kept = self._kept[:chunk], self._kept[chunk:]
            messages = messages or self._consumed(chunk, timeout_s if not self._chunks else 0)
            is_last = len(messages) < chunk and not self._kept
            if messages and most_bytes is not None:
                count, size_bytes = _fitting(messages, left_bytes)
                self._kept = [*messages[count:], *self._kept]
                del messages[count:]
                left_bytes -= size_bytes
            if messages:
                self._chunks.append(self._sorted(messages, self._found))
            if is_last:
                return
            most -= chunk

    def close(self) -> None:
        self.commits.close()

    def _consumed(self, most: int, timeout_s: float) -> list[Any]:
        try:
            messages: list[Any] = self._consumer.consume(most, 0)
            if not messages and timeout_s:
                first = self._consumer.poll(timeout_s)
                messages = [] if first is None else [first, *self._more(most - 1)]
        except KafkaException as error:
            raise translate(error, DOING, self._bootstrap) from error
        return messages

    def _more(self, most: int) -> list[Any]:
        """Return the messages available after the first. The next call raises an error, so the first is not lost."""
        try:
            found: list[Any] = self._consumer.consume(most, 0)
        except KafkaException:
            return []
        return found

    def _sorted(self, messages: Sequence[Any], found: Read) -> Fetched:
        """Return the records and the ends of partitions, and handle all other events."""
        ends: dict[TopicPartition, int] = {}
        if not is_plain(messages):
            messages = [message for message in messages if not self._is_event(message, ends, found)]
        fetched = Fetched.of(messages, self._read_again)
        fetched.ends, fetched.epochs = ends, last_epochs(fetched.places, messages)
        return fetched

    def _is_event(self, message: Any, ends: dict[TopicPartition, int], found: Read) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:
            ends[place_of(message)] = message.offset()
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            found.lost.add(place_of(message))
            if cut := _CUT.search(error.str()):
                found.cut[place_of(message)] = LogPosition(int(cut[1]), epoch=int(cut[2]))
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED and message.topic():
            found.refused[message.topic()] = error.str()
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            found.away = error.str()
        elif not is_passing(error, has_group=False):
            raise translate(error, DOING, self._bootstrap)
        return True


def _fitting(messages: Sequence[Any], most_bytes: float) -> tuple[int, int]:
    """Return how many messages there are up to the one that reaches `most_bytes`, and their total size in bytes."""
    size_bytes = sum(map(len, messages))
    if size_bytes < most_bytes:
        return len(messages), size_bytes
    totals = list(accumulate(map(len, messages)))
    count = min(bisect_left(totals, most_bytes) + 1, len(messages))
    return count, totals[count - 1]


def _placed(place: TopicPartition, at: LogPosition) -> ClientPartition:
    known = {} if at.epoch == NO_EPOCH else {"leader_epoch": at.epoch}
    return ClientPartition(*place, at.offset, **known)
