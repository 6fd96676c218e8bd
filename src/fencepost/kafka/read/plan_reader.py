"""What reads the partitions of a plan from the cluster: the port behind which a client does it, and librdkafka there.

A reader knows positions and fetches what lies behind them. What a log that does not go on there means, and of which
topic records are, is for `PlanInput` to find out.
"""

import contextlib
import threading
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.errors import is_unavailable, new_client, translate
from fencepost.kafka.library_log import library_log
from fencepost.kafka.read.read_again import read_again_by
from fencepost.kafka.value.fetched import Fetched, is_plain
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.log_gap import NO_EPOCH, LogPosition
from fencepost.record import Repeated, TopicPartition

DOING = "reading partitions of a plan"

_LOT = 500
_CUT = "log truncation detected"  # the client has no other sign for it: it says so where it would reset the position
_PASSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.GROUP_AUTHORIZATION_FAILED,  # of the group that the client wants to have a name of
    }
)


@dataclass
class Read:
    """What came of one look, beside records: `away` says why no broker can be reached.

    Of the partitions that are `lost`, what was read last of those that are `cut` is not in their logs any more.
    """

    fetched: Fetched = field(default_factory=Fetched)
    lost: set[TopicPartition] = field(default_factory=set)
    cut: set[TopicPartition] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    away: str | None = None


class PlanReader(Protocol):
    """Used by one thread, but for `commit`. Nothing connects before the first `read`."""

    @property
    def commit_trouble(self) -> str | None:
        """Return why the last commit that is known of was refused; None where all is well, or nothing is known."""

    @property
    def knows_topics(self) -> bool:
        """Say whether all that has come so far is of the topics that have the ids it was told: the brokers see to that.

        Else what comes is of topics that have those names.
        """

    def assign(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Read these partitions, too, from these positions on."""

    def unassign(self, places: Collection[TopicPartition]) -> None:
        """Read these partitions no more: nothing of them comes from now on."""

    def read(self, timeout_s: float, most: int, most_bytes: int | None = None) -> Read:
        """Return what has come, waiting `timeout_s` for the first record; the last one is what reaches a limit.

        `fetched.ends` are where partitions end, or are read up to without a record. A partition that is `lost` has
        nothing at its position, or something else than what was read there before, and is not read on until it is
        assigned anew. Raises what `translate` makes of a refusal; a broker that is away is waited for.
        """

    def commit(self, offsets: Collection[GroupOffset]) -> None:
        """Have the group told of offsets, as `PlanInput.commit` says. For any thread."""

    def close(self) -> None:
        """Let go. Idempotent."""


class ClientReader:
    """Reads with librdkafka, record by record, and topics by their names."""

    knows_topics = False

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Raise KafkaRequestError for settings that the client does not take."""
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._read_again = read_again_by(conf)
        self._in_commit = threading.Lock()
        self._lots: list[Fetched] = []  # taken, and not handed over yet
        self._kept: list[Any] = []  # messages for which there was no room
        self._found = Read()
        self._unheard = 0  # commits of which it is not known what came of them
        self.commit_trouble: str | None = None
        self._consumer: Any = new_client(Consumer, {**conf, "on_commit": self._heard}, logger=library_log(__name__))

    def assign(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        self._consumer.incremental_assign([_placed(place, at) for place, at in positions.items()])

    def unassign(self, places: Collection[TopicPartition]) -> None:
        gone = set(places)
        self._kept = [each for each in self._kept if (each.topic(), each.partition()) not in gone]
        self._consumer.incremental_unassign([ClientPartition(*place) for place in places])

    def read(self, timeout_s: float, most: int, most_bytes: int | None = None) -> Read:
        """Take what has come, in lots: with many messages at once Python's garbage collector would look at each."""
        if not self._lots:  # else something went wrong behind them
            self._take(timeout_s, most, most_bytes)
        found, self._found = self._found, Read()
        found.fetched, self._lots = Fetched.joined(self._lots), []
        return found

    def _take(self, timeout_s: float, most: int, most_bytes: int | None) -> None:
        left_bytes = float("inf") if most_bytes is None else most_bytes
        while most > 0 and left_bytes > 0:
            lot = min(most, _LOT)
            messages, self._kept = self._kept[:lot], self._kept[lot:]
            messages = messages or self._consumed(lot, timeout_s if not self._lots else 0)
            is_last = len(messages) < lot and not self._kept
            if messages and most_bytes is not None:
                count, size_bytes = _fitting(messages, left_bytes)
                self._kept = [*messages[count:], *self._kept]
                del messages[count:]
                left_bytes -= size_bytes
            if messages:
                self._lots.append(self._sorted(messages, self._found))
            if is_last:
                return
            most -= lot

    def serve(self) -> None:
        """Hear what came of commits, where nothing is read."""
        self._more(1)

    def commit(self, offsets: Collection[GroupOffset]) -> None:
        asked = [ClientPartition(o.topic, o.partition, o.offset, o.note) for o in offsets]
        with self._in_commit:
            if self._consumer is not None and asked:
                try:
                    self._consumer.commit(offsets=asked, asynchronous=True)
                except KafkaException as error:
                    raise translate(error, "committing offsets", self._bootstrap) from error
                self._unheard += 1

    def close(self) -> None:
        with self._in_commit:
            consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        if self._unheard:  # the client waits for what comes of it, for most of a minute where no broker answers
            threading.Thread(target=_close, args=(consumer,), name="close reader", daemon=True).start()
        else:
            _close(consumer)

    def _heard(self, error: Any, places: Sequence[Any]) -> None:
        with self._in_commit:
            self._unheard -= 1
        refused = [place.error for place in places if place.error is not None]
        first = error or next(iter(refused), None)
        self.commit_trouble = None if first is None else f"{first.str()} ({first.name()})"

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
        """Return what has come together with the first message; an error is the next call's, for that one is here."""
        try:
            found: list[Any] = self._consumer.consume(most, 0)
        except KafkaException:
            return []
        return found

    def _sorted(self, messages: Sequence[Any], found: Read) -> Fetched:
        """Return records and ends of partitions, and take note of everything else."""
        ends: dict[TopicPartition, int] = {}
        if not is_plain(messages):
            messages = [message for message in messages if not self._is_event(message, ends, found)]
        fetched = Fetched.of(messages, self._read_again)
        fetched.ends, fetched.epochs = ends, _epochs(fetched.places, messages)
        return fetched

    def _is_event(self, message: Any, ends: dict[TopicPartition, int], found: Read) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:
            ends[TopicPartition(message.topic(), message.partition())] = message.offset()
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            place = TopicPartition(message.topic(), message.partition())
            found.lost.add(place)
            found.cut |= {place} if _CUT in error.str() else set()
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED and message.topic():
            found.refused[message.topic()] = error.str()
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            found.away = error.str()
        elif not (is_unavailable(error) or error.code() in _PASSING):
            raise translate(error, DOING, self._bootstrap)
        return True


def _fitting(messages: Sequence[Any], most_bytes: float) -> tuple[int, int]:
    """Return how many of the first messages there are up to the one that reaches so many bytes, and how many it is."""
    size_bytes = sum(map(len, messages))
    if size_bytes < most_bytes:
        return len(messages), size_bytes
    behind = list(accumulate(map(len, messages)))
    count = min(bisect_left(behind, most_bytes) + 1, len(messages))
    return count, behind[count - 1]


def _epochs(places: Sequence[TopicPartition], messages: Sequence[Any]) -> dict[TopicPartition, tuple[int, int]]:
    """Return the epoch of the last of these records of each partition, with the offset behind it."""
    is_one = isinstance(places, Repeated)
    last = {places[-1]: messages[-1]} if is_one else dict(zip(places, messages, strict=True))
    epochs = {place: (message.offset() + 1, message.leader_epoch()) for place, message in last.items()}
    return {place: (behind, epoch) for place, (behind, epoch) in epochs.items() if epoch is not None}


def _placed(place: TopicPartition, at: LogPosition) -> ClientPartition:
    known = {} if at.epoch == NO_EPOCH else {"leader_epoch": at.epoch}
    return ClientPartition(*place, at.offset, **known)


def _close(consumer: Any) -> None:
    with contextlib.suppress(KafkaException, RuntimeError):
        consumer.close()
