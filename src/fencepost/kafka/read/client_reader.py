"""Reads with librdkafka: the only place that takes messages from its consumers.

Whole batches are read by `BatchReader`. librdkafka reads where records are needed one by one, and wherever a setting is
one that only it has.
"""

import logging
import re
import time
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from itertools import accumulate
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.codec.decode import DecodedRecord, decoded
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError, translate
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.consumer import OffsetCommitter, is_passing, obstacle_of, place_of
from fencepost.kafka.read.fetched_queue import Unread, UnreadFetched
from fencepost.kafka.read.plan_reader import DOING, Read
from fencepost.kafka.setting.batch_settings import readable
from fencepost.kafka.value.fetched import Fetched, Headers, is_plain, last_epochs
from fencepost.kafka.value.position import NO_EPOCH, LogPosition
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

CHUNK = 500
"""How many messages are taken at once. Of more, Python's garbage collector would visit each."""
# The client's only sign of a log that was cut, in the error of a position reset.
_CUT = re.compile(r"log truncation detected.*broker end offset is (\d+) \(offset leader epoch (-?\d+)\)")


class ClientMessages:
    """Takes the messages of a client: records become columns, all other events become part of a `Read`."""

    def __init__(self, conf: Mapping[str, Any], doing: str, *, has_group: bool = False) -> None:
        """`conf` is the client's. Errors name `doing` as what failed. `has_group`: the client is a group's member."""
        self._conf = conf
        self._doing = doing
        self._has_group = has_group
        self._failure: Exception | None = None
        self._raw_headers: Any = None
        self.throttled_until_s = 0.0
        """Until when a broker's quota lets nothing arrive, if `throttled` is the client's `throttle_cb`."""

    def throttled(self, event: Any) -> None:
        self.throttled_until_s = max(self.throttled_until_s, time.monotonic() + event.throttle_time)

    def arrived(self, consumer: Any, most: int, timeout_s: float) -> list[Any]:
        """Return messages that have arrived; if there are none, wait for one. Raises errors of the client."""
        self._raise_failure()
        try:
            first = consumer.poll(timeout_s)
        except KafkaException as error:
            raise self.failed(error) from error
        if first is None:
            return []
        try:
            return [first, *(consumer.consume(most - 1, 0) if most > 1 else ())]
        except KafkaException:  # the next call raises one, so the first message is not lost
            return [first]

    def sorted(self, messages: Sequence[Any], found: Read) -> Fetched:
        """Return the records and the ends of partitions, and add all other events to `found`.

        An error that does not pass is raised by the next call if records came with it, so that they are not lost.
        """
        ends: dict[TopicPartition, int] = {}
        if not is_plain(messages):
            messages = [message for message in messages if not self._is_event(message, ends, found)]
        if not messages:
            self._raise_failure()
        fetched = Fetched.of(messages, self._read_again)
        fetched.ends, fetched.epochs = ends, last_epochs(fetched.places, messages)
        return fetched

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def ensure_allowed(self, found: Read) -> None:
        """Raise KafkaAuthorizationError if a topic is refused, for readers that need all of theirs."""
        found.ensure_allowed(self._doing, str(self._conf.get("bootstrap.servers", "")))

    def failed(self, cause: Any) -> Exception:
        """Return the error to raise for a failure of the client."""
        return translate(cause, self._doing, str(self._conf.get("bootstrap.servers", "")))

    def _is_event(self, message: Any, ends: dict[TopicPartition, int], found: Read) -> bool:
        error = message.error()
        if error is None:
            return False
        match error.code():
            case KafkaError._PARTITION_EOF:
                ends[place_of(message)] = message.offset()
            case KafkaError._AUTO_OFFSET_RESET:
                found.lost.add(place_of(message))
                found.obstacle = error.str()
                if cut := _CUT.search(error.str()):
                    found.cut[place_of(message)] = LogPosition(int(cut[1]), epoch=int(cut[2]))
            case KafkaError.TOPIC_AUTHORIZATION_FAILED if message.topic():
                found.refused[message.topic()] = error.str()
            case KafkaError._MAX_POLL_EXCEEDED:
                log.warning(
                    "group %s has revoked this member's partitions: its task took longer for a batch than "
                    "max.poll.interval.ms (raise consumer.override.max.poll.interval.ms, or make batches smaller with "
                    "consumer.override.max.poll.records)",
                    self._conf.get("group.id"),
                )
            case code if is_passing(error, has_group=self._has_group):
                found.obstacle = obstacle_of(error)
                found.away = error.str() if code == KafkaError._ALL_BROKERS_DOWN else found.away
            case _:
                self._failure = self._failure or self.failed(error)
        return True

    def _read_again(self, place: TopicPartition, offset: int) -> Headers:
        if self._raw_headers is None:
            from fencepost.kafka.read.client_reader import RawHeaders  # Arrow, for those who use it

            self._raw_headers = RawHeaders(self._conf)
        found: Headers = self._raw_headers.read(place, offset)
        return found


class ClientReader:
    """A `PlanReader` that addresses topics by name."""

    knows_topics = False

    def __init__(self, conf: Mapping[str, Any], *, doing: str = DOING) -> None:
        """Create the client. Errors name `doing` as what failed. Raises KafkaRequestError for refused settings."""
        self._messages = ClientMessages(conf, doing)
        self._chunks: list[Fetched] = []  # fetched, but not returned yet
        self._kept: list[Any] = []  # messages for which there was no room
        self._found = Read()
        self.commits = OffsetCommitter({**conf, "throttle_cb": self._messages.throttled})
        self._consumer = self.commits.client()

    def assign(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        self._consumer.incremental_assign([_placed(place, at) for place, at in positions.items()])

    def unassign(self, places: Collection[TopicPartition]) -> None:
        gone = set(places)
        self._kept = [each for each in self._kept if (each.topic(), each.partition()) not in gone]
        self._consumer.incremental_unassign([ClientPartition(*place) for place in places])

    def read(self, timeout_s: float, most: int, most_bytes: int | None = None) -> Read:
        if not self._chunks:  # else an error occurred after them
            self._take(timeout_s, most, most_bytes)
        found, self._found = self._found, Read()
        found.fetched, self._chunks = Fetched.joined(self._chunks), []
        found.throttled_until_s = self._messages.throttled_until_s
        return found

    def _take(self, timeout_s: float, most: int, most_bytes: int | None) -> None:
        left_bytes = float("inf") if most_bytes is None else most_bytes
        while most > 0 and left_bytes > 0:
            chunk = min(most, CHUNK)
            messages, self._kept = self._kept[:chunk], self._kept[chunk:]
            messages = messages or self._messages.arrived(self._consumer, chunk, timeout_s if not self._chunks else 0)
            is_last = len(messages) < chunk and not self._kept
            if messages and most_bytes is not None:
                count, size_bytes = _fitting(messages, left_bytes)
                self._kept = [*messages[count:], *self._kept]
                del messages[count:]
                left_bytes -= size_bytes
            if messages:
                self._chunks.append(self._messages.sorted(messages, self._found))
            if is_last:
                return
            most -= chunk

    def close(self) -> None:
        self.commits.close()


def _fitting(messages: Sequence[Any], most_bytes: float) -> tuple[int, int]:
    size_bytes = sum(map(len, messages))
    if size_bytes < most_bytes:
        return len(messages), size_bytes
    totals = list(accumulate(map(len, messages)))
    count = min(bisect_left(totals, most_bytes) + 1, len(messages))
    return count, totals[count - 1]


def _placed(place: TopicPartition, at: LogPosition) -> ClientPartition:
    known = {} if at.epoch == NO_EPOCH else {"leader_epoch": at.epoch}
    return ClientPartition(*place, at.offset, **known)


_READ_S, _LOOK_S = 60.0, 1.0


class RawHeaders:
    """Reads records again by a client that gives their bytes. Connects at the first; for one thread."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """`conf` is the consumer's, in librdkafka's names."""
        self._conf = conf
        self._known: dict[tuple[TopicPartition, int], Headers] = {}

    def read(self, place: TopicPartition, offset: int) -> Headers:
        """Return the headers of a record, which is in the log.

        Raises KafkaAuthorizationError, CorruptBatchError, or KafkaRequestError where no broker answers for a minute or
        only librdkafka can connect: nothing that passes, for the client has handed the record over already.
        """
        if (place, offset) not in self._known:
            self._known = {(place, record.offset): record.headers for record in self._batch(place, offset)}
        return self._known[place, offset]

    def _batch(self, place: TopicPartition, offset: int) -> list[DecodedRecord]:
        """Return the records of the batch that has an offset; there may be more of their kind in it."""
        doing = f"reading the headers of offset {offset} of {place.topic}-{place.partition} as bytes"
        with closing(BatchReader(readable(self._conf), Unread(), doing=doing)) as reader:
            reader.assign({place: LogPosition(offset)})
            until_s = time.monotonic() + _READ_S
            while time.monotonic() < until_s:
                records = _decoded(_read(reader))
                if any(record.offset == offset for record in records):
                    return records
        raise KafkaRequestError(f"No broker answered within {_READ_S:g} s while {doing}", KafkaError._TIMED_OUT)


def _read(reader: BatchReader) -> Fetched:
    try:
        return reader.read(_LOOK_S, 1).fetched
    except KafkaUnavailableError:
        time.sleep(_LOOK_S)
        return Fetched()


def _decoded(fetched: Fetched) -> list[DecodedRecord]:
    batches = fetched.entries if isinstance(fetched, UnreadFetched) else ()
    return [record for _, batch in batches for record in decoded(batch.sent.view)]
