"""Reads a whole topic as a log, from its beginning to its current end.

1. Count the partitions, because a topic may have got more.
2. Look up the end of each one read_uncommitted, which includes records of open transactions.
3. Consume the log read_committed up to there. This waits for open transactions and skips aborted ones.
So the result covers everything that was written before the call, whether its transaction is committed or aborted.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from fencepost.guide import guide
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import AGAIN_S, KafkaRequestError, MissingTopicError, ReadTimeoutError, translate
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.read.client_reader import CHUNK, ClientMessages
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.wire.experience import TopicView, experience_with
from fencepost.kafka.wire.library_client import library_log, new_client
from fencepost.record import Repeated

LOG = logging.getLogger(__name__)
_GROW_S = 10.0
_NO_TIME = -1
_TOPIC_CREATED_S = 3.0


class LogRecord(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


Handler = Callable[[LogRecord], None]


class LogReader:
    """Consumes all partitions of one topic, and keeps its position between reads. Commits nothing and joins no group.

    Not thread-safe, except for `positions`, `ends` and `look`. New partitions are read after the next `read_to_end`,
    `ends` or `look`; a topic that `is_single` has only one, and they are not counted again. Nothing connects before the
    first read. Records arrive at once. `fetch_wait_ms` limits the delay until the end of the log is noticed; an idle
    topic is fetched that often.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        topic: str,
        *,
        read_committed: bool = True,
        fetch_wait_ms: int = 10,
        is_single: bool = False,
    ) -> None:
        self._guard = ForkGuard()
        self.topic = topic
        self._partitions = _LogPartitions(conf, topic, is_single=is_single)
        self._positions: dict[int, int] = {}  # of the partitions that are read
        self._assigned = False
        self._obstacle = ""  # why nothing comes, if that is known
        self._messages = ClientMessages(conf, f"reading topic {topic}")
        settings = {
            "group.id": "fencepost-log",  # The client requires one; the group is never joined.
            **conf,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": fetch_wait_ms,
            "allow.auto.create.topics": False,
            "throttle_cb": self._messages.throttled,
        }
        self._client = _LogClient(settings, self._partitions)

    def start(self, timeout_s: float = 30.0) -> None:
        """Find the partitions and begin to fetch. Idempotent. Raises MissingTopicError if there is no such topic."""
        self._check_process()
        if not self._partitions.count:
            self._partitions.ensure(timeout_s)
        if not self._assigned or self._has_grown():
            self._take_up(timeout_s)

    def go_on_at(self, positions: Mapping[int, int]) -> None:
        """Begin to fetch at the positions of another reader, which must include all partitions of the topic."""
        self._check_process()
        self._positions = dict(positions)
        self._partitions.count = max(self._partitions.count, len(positions))
        self._assign()

    def with_records(self, ends: Mapping[int, int], timeout_s: float) -> set[int]:
        """Return the partitions that have a record between the reader's position and these ends.

        Raises ReadTimeoutError, and everything that `poll` raises.
        """
        found: set[int] = set()
        deadline_s = time.monotonic() + timeout_s
        while unread := {p: end for p, end in self.unread(ends).items() if p not in found}:
            if time.monotonic() > deadline_s:
                raise self.timed_out(unread, timeout_s)
            self.poll(lambda record: found.add(record.partition), 0.2)
        return found & ends.keys()

    def rest(self) -> None:
        """Stop fetching until the next read, which continues at the same position."""
        self._check_process()
        if self._assigned:
            self._client.consumer.unassign()
            self._assigned = False

    def look(self, timeout_s: float) -> str | None:
        """Count the partitions, so that `poll` also reads new ones. Returns the topic's id; None if it is missing.

        A topic that was deleted and created again has another id.
        """
        self._check_process()
        return self._partitions.look(timeout_s)

    @property
    def positions(self) -> Mapping[int, int]:
        """Return, for each known partition, the offset before which everything has been handled."""
        return dict(self._positions)

    def ends(self, timeout_s: float, *, read_committed: bool = False) -> dict[int, int]:
        """Return the current end of every partition (steps 1 and 2).

        With `read_committed`, the end is before the first open transaction.
        """
        if not self._partitions.is_single:
            self._partitions.ensure(timeout_s)
        return self._partitions.ends(timeout_s, read_committed=read_committed)

    def read_to_end(self, timeout_s: float, handler: Handler, *, waits: bool = True, looks: bool = True) -> None:
        """Pass `handler` every record up to the current end. A ReadTimeoutError says what the read waited for.

        If a quota throttles the reader, its timeout starts again when the throttling ends.

        Without `waits`, the read does not wait for open transactions: it ends before the first one in each partition.
        Records that were handled before an error are not handled again: the next read continues after them. Without
        `looks`, the partitions are not counted first.
        """
        deadline = time.monotonic() + timeout_s
        if looks and self._partitions.count and not self._partitions.is_single:
            self._partitions.ensure(timeout_s)
        self.start(timeout_s)
        ends = self._partitions.ends(timeout_s, read_committed=not waits)
        while unread := self.unread(ends):
            left_s = max(deadline, self._messages.throttled_until_s + timeout_s) - time.monotonic()
            if left_s <= 0:
                raise self.timed_out(unread, timeout_s)
            self.poll(handler, min(left_s, 0.2))

    def unread(self, ends: Mapping[int, int]) -> dict[int, int]:
        """Return the partitions whose end has not been reached, with that end."""
        return {p: end for p, end in ends.items() if end > 0 and self._positions.get(p, 0) < end}

    def poll(self, handler: Handler, timeout_s: float) -> int:
        """Pass `handler` what has arrived, and return the number of records. Waits up to `timeout_s` for the first.

        `handler` must not raise. Raises KafkaAuthorizationError, or KafkaRequestError if the position is no longer in
        the log. Waits silently for a broker that is down.
        """
        self._check_process()
        if self._assigned and self._has_grown():
            self._take_up(_GROW_S)
        elif self._assigned and self._client.is_old:
            self._assign()
        messages = self._messages.arrived(self._client.consumer, CHUNK, timeout_s)
        if not messages and self._assigned:
            for tp in self._client.consumer.position([TopicPartition(self.topic, p) for p in self._positions]):
                if tp.offset >= 0:
                    self._advance(tp.partition, tp.offset)
        return self._take(messages, handler)

    def timed_out(self, unread: Mapping[int, int], timeout_s: float) -> ReadTimeoutError:
        """Return the error for a read that could not reach `unread` within `timeout_s`."""
        partition, end = next(iter(unread.items()))
        at = self._positions.get(partition, 0)
        why = self._obstacle or (
            "a transaction that wrote to it may still be open; one that `kafka-transactions.sh find-hanging "
            f"--topic {self.topic}` names is ended by nobody ({guide('how-to/operate')})"
        )
        return ReadTimeoutError(
            f"Topic {self.topic} was not read to its end within {timeout_s:g} s: "
            f"partition {partition} stands at {at} of {end}; {why}."
        )

    def close(self) -> None:
        """Close the consumer. Idempotent."""
        self._check_process()
        self._client.close()

    def _take(self, messages: Sequence[Any], handler: Handler) -> int:
        found = Read()
        fetched = self._messages.sorted(messages, found)
        headers = fetched.headers or Repeated((), len(fetched))
        columns = fetched.places, fetched.offsets, fetched.timestamps, fetched.keys, fetched.values, headers
        for place, offset, at_ms, *rest in zip(*columns, strict=True):
            handler(LogRecord(place.partition, offset, _NO_TIME if at_ms is None else at_ms, *rest))
            self._positions[place.partition] = offset + 1
        for place, end in fetched.ends.items():
            self._advance(place.partition, end)  # skips transaction markers and aborted records
        self._obstacle = found.obstacle or ("" if len(fetched) or fetched.ends else self._obstacle)
        for place in found.lost:
            raise KafkaRequestError(
                f"Topic {self.topic} lost what stood at {place.partition}/{self._positions.get(place.partition, 0)}: "
                f"it was truncated or re-created while in use ({found.obstacle}). Restart the worker to read it again.",
                KafkaError._AUTO_OFFSET_RESET,
            )
        self._messages.ensure_allowed(found)
        return len(fetched)

    def _check_process(self) -> None:
        self._guard.check(f"The reader of topic {self.topic}")

    def _has_grown(self) -> bool:
        return len(self._positions) < self._partitions.count

    def _take_up(self, timeout_s: float) -> None:
        if self._has_grown():
            if self._positions:
                LOG.info(
                    "Topic %s has %d partitions now, not %d", self.topic, self._partitions.count, len(self._positions)
                )
                self._learn_of_partitions(timeout_s)
            # By offset, not by OFFSET_BEGINNING, which takes the client half a second to look up.
            for partition, start in self._partitions.starts(timeout_s).items():
                self._advance(partition, max(start, 0))
        self._assign()

    def _learn_of_partitions(self, timeout_s: float) -> None:
        """Make the client look up new partitions now; otherwise it would take minutes."""
        try:
            self._client.renewed().list_topics(self.topic, timeout=timeout_s)
        except KafkaException as error:
            raise self._partitions.failed(error, f"asking for the partitions of topic {self.topic}") from error

    def _assign(self) -> None:
        consumer = self._client.renewed()
        consumer.assign([TopicPartition(self.topic, p, at) for p, at in sorted(self._positions.items())])
        self._assigned = True

    def _advance(self, partition: int, offset: int) -> None:
        self._positions[partition] = max(self._positions.get(partition, 0), offset)


class _LogPartitions:
    """The partitions of a topic, when they were last counted."""

    def __init__(self, conf: Mapping[str, Any], topic: str, *, is_single: bool) -> None:
        self._topic = topic
        self._admin = Admin(conf)
        self._experience = experience_with(conf)
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self.is_single = is_single
        self.count = 0

    @property
    def view(self) -> TopicView | None:
        """Return who leads the partitions, as any client of this process knows it; another object if that changes."""
        return self._experience.topics.get(self._topic)

    def failed(self, cause: Any, doing: str) -> Exception:
        return translate(cause, doing, self._bootstrap)

    def look(self, timeout_s: float) -> str | None:
        """Count the partitions. Returns the topic's id; None if it is missing."""
        found = self._admin.topics.get(self._topic, timeout_s=timeout_s)
        if found is None:
            return None
        self.count = max(self.count, 1 if self.is_single else found.partitions)
        return found.id

    def ensure(self, timeout_s: float) -> None:
        """Raise MissingTopicError if the topic is missing for some seconds: brokers may not know a new topic yet."""
        deadline = time.monotonic() + min(timeout_s, _TOPIC_CREATED_S)
        while self.look(timeout_s) is None:
            if time.monotonic() > deadline:
                raise MissingTopicError(f"Topic {self._topic} does not exist", KafkaError.UNKNOWN_TOPIC_OR_PART)
            time.sleep(AGAIN_S)

    def starts(self, timeout_s: float) -> dict[int, int]:
        found = self._admin.offsets.starts(((self._topic, p) for p in range(self.count)), timeout_s=timeout_s)
        return {partition: start for (_, partition), start in found.items()}

    def ends(self, timeout_s: float, *, read_committed: bool) -> dict[int, int]:
        places = ((self._topic, p) for p in range(self.count))
        found = self._admin.offsets.ends(places, read_committed=read_committed, timeout_s=timeout_s)
        return {partition: end for (_, partition), end in found.items()}


class _LogClient:
    """The client of a reader. It is made when the topic was looked up, and again when a partition has a new leader.

    Its own metadata are those of the broker that it used last. If that is cut off from the others, it never learns of
    new leaders.
    """

    def __init__(self, settings: Mapping[str, Any], partitions: _LogPartitions) -> None:
        self._settings = settings
        self._partitions = partitions
        self._view: TopicView | None = None  # who led the partitions when it was made
        self.consumer: Any = None

    @property
    def is_old(self) -> bool:
        return self._partitions.view is not self._view

    def renewed(self) -> Any:
        """Return the consumer: another one, to which nothing is assigned, if partitions have new leaders."""
        if self.is_old:
            self.close()
        if self.consumer is None:
            self._view = self._partitions.view
            self.consumer = new_client(Consumer, self._settings, logger=library_log(__name__))
        return self.consumer

    def close(self) -> None:
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            consumer.close()
