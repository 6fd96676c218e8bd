"""A member of a consumer group that reads in whole batches: librdkafka is the member, `BatchReader` brings the data.

The client owns all partitions, paused. It assigns and revokes them, and it commits. It is polled at least every 100 ms,
because its callbacks and `max.poll.interval.ms` need that. If it is better at reading than the reader, it also fetches,
from then on and for good: with very many partitions, with small batches, or if a connection to a broker fails.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.errors import KafkaUnavailableError, is_unavailable, kafka_error, translate
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.doubt import SURE_S, Doubts
from fencepost.kafka.read.group_input import PASSING, Assignee, GroupInput, nowhere_to_begin
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.read.unread import Unread, UnreadFetched
from fencepost.kafka.read.waiting_records import WaitingRecords
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_TURN_S = 0.1  # how long the reader may wait before the group's callbacks run
_AT_ONCE = 10_000  # records that are decoded together, or more: a few dozen of Arrow's steps for all of them
_MOST_PARTITIONS = 200  # a reader names all its partitions in each request
_LOOK_AT, _LEAST_RECORDS = 200, 20  # batches to average over; with fewer records a batch the client is cheaper
_LONG_S = 2.0  # a reader is delayed this long only by a broker that is away
_FIRST_ASK_S, _LONGEST_ASK_S = 0.1, 2.0
_DOUBT_EVERY_S = 0.25


class BatchGroupInput(GroupInput):
    """A `GroupInput` that reads whole batches and checks them (E22). For one thread, except `abandon`.

    The position of a partition is that of the next record to return. Records that were read beyond it wait. They are
    dropped if the position moves elsewhere.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        topics: Sequence[str] | Callable[[str], object],
        assignee: Assignee,
        *,
        whole: Collection[str] = (),
    ) -> None:
        """Raises KafkaRequestError for settings that the client or the reader does not support."""
        self._reader = BatchReader(conf, Unread(), doing=f"reading as a member of group {conf.get('group.id')}")
        self._waiting = WaitingRecords()
        self._next: dict[TopicPartition, LogPosition] = {}
        self._ends: dict[TopicPartition, int] = {}  # of logs of partitions that the reader no longer reads
        self._lost: dict[TopicPartition, float] = {}  # nothing is at their positions; when to ask for the log's edges
        self._cut: set[TopicPartition] = set()  # of those: their last read records are no longer in the log
        self._doubts: Doubts[TopicPartition] = Doubts()
        self._ask_s = _FIRST_ASK_S  # how long to wait for that answer
        self._batches = self._records = 0  # read since their size was last checked
        self._why = ""  # why the client should fetch
        super().__init__(conf, topics, assignee, fetches=False, whole=whole)

    def known_ends(self) -> dict[TopicPartition, int]:
        if self._fetches:
            return super().known_ends()
        with self._in_client:
            ends = self._ends | self._reader.known_ends()
        return {place: end for place, end in ends.items() if place in self.assignment}

    def _close(self) -> None:
        super()._close()
        self._reader.close()

    # reading

    def _chunks(self, timeout_s: float, most: int) -> Iterator[Fetched]:
        """Yield fetched records, after the callbacks have run: records of revoked partitions are left out (E14)."""
        if self._why and not self._fetches:
            self._switch_to_client(self._why)
        if self._fetches:
            yield from super()._chunks(timeout_s, most)
            return
        until_s = time.monotonic() + timeout_s
        is_over = False
        while not is_over:
            found = self._served(until_s)
            if self._error is not None:
                return
            if self._fetches:  # since just now: the client may have fetched already
                yield found
                return
            left_s = until_s - time.monotonic()
            self._read(max(0.0, min(_TURN_S, left_s)), most)
            fetched = self._waiting.take(most)
            is_over = len(fetched) > 0 or bool(fetched.ends) or left_s <= 0
            self._record_positions(fetched)
            yield fetched

    def _served(self, until_s: float) -> Fetched:
        """Run all callbacks of the group that are due. If nothing can be read, waits a moment for one.

        A callback may come after an event: a member that was away for too long first gets the reason, and then the
        callback for its lost partitions. No records come, because all partitions are paused in the client.
        """
        is_idle = not (self._reading() or len(self._waiting))
        timeout_s = max(0.0, min(_TURN_S, until_s - time.monotonic())) if is_idle else 0.0
        found: list[Any] = []
        try:
            while (message := self._consumer.poll(timeout_s)) is not None:
                found.append(message)
                timeout_s = 0.0
                if self._fetches or self._error is not None:
                    break
        except KafkaException as error:
            raise translate(error, f"reading as a member of group {self._group}", self._bootstrap) from error
        return self._sorted(found)

    def _reading(self) -> bool:
        return len(self._next) > len(self._paused) + len(self._lost)

    def _read(self, timeout_s: float, most: int) -> None:
        """Read once, unless `most` records already wait. Waits for records only if none wait."""
        self._reset_lost()
        if len(self._waiting) >= most or not self._reading():
            return
        began_s = time.monotonic()
        timeout_s = 0.0 if len(self._waiting) else timeout_s
        read = self._taken(timeout_s, max(most, _AT_ONCE))
        if time.monotonic() - began_s > timeout_s + _LONG_S:
            self._why = "a broker cannot be connected to"
        self._heed(read)
        if isinstance(read.fetched, UnreadFetched):
            self._look_at(read.fetched)
            self._waiting.add(read.fetched)

    def _look_at(self, fetched: UnreadFetched) -> None:
        """Choose the client if batches are small: this reader's cost is mostly per batch, not per record."""
        self._batches += len(fetched.entries)
        self._records += sum(batch.count for _, batch in fetched.entries)
        if self._batches >= _LOOK_AT:
            if self._records < _LEAST_RECORDS * self._batches:
                self._why = f"{self._batches} batches have {self._records} records"
            self._batches = self._records = 0

    def _taken(self, timeout_s: float, most: int) -> Read:
        try:
            return self._reader.read(timeout_s, most)
        except KafkaUnavailableError as error:
            log.debug("%s", error)
            time.sleep(timeout_s)  # otherwise the next request would follow at once
            return Read()

    def _heed(self, read: Read) -> None:
        """Handle everything in the result except records. Raises KafkaAuthorizationError."""
        for place in read.lost:
            if place in self._next and place not in self._paused:
                self._lost.setdefault(place, 0.0)
        self._cut |= read.cut & self._lost.keys()
        if read.refused:
            topic = min(read.refused)
            raise translate(
                KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
                f"reading topic {topic} as a member of group {self._group}",
                self._bootstrap,
            )

    def _record_positions(self, fetched: Fetched) -> None:
        """Record the next positions of partitions."""
        positions = {place: LogPosition(offset, epoch=epoch) for place, (offset, epoch) in fetched.epochs.items()}
        self._next.update(positions)
        self._doubts.forget(positions)  # their logs continue there

    # positions

    def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._fetches:
            super()._seek(offsets)
        else:
            self._go_to({place: LogPosition(offset) for place, offset in offsets.items()})

    def _go_to(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Continue at other positions than those after the returned records."""
        self._drop(positions)
        self._next.update(positions)
        self._reader.assign({place: at for place, at in positions.items() if place not in self._paused})

    def _stop_fetching(self, places: Collection[TopicPartition]) -> None:
        if self._fetches:
            super()._stop_fetching(places)
        else:
            self._drop(places)

    def _fetch_on(self, places: Collection[TopicPartition]) -> None:
        if self._fetches:
            super()._fetch_on(places)
        else:
            self._reader.assign({place: self._next[place] for place in places if place in self._next})

    def _drop(self, places: Collection[TopicPartition]) -> None:
        """Stop reading these partitions, and drop their records that were read but not returned."""
        self._ends |= self._reader.known_ends()
        self._reader.unassign(places)
        self._waiting.drop(places)
        self._cut.difference_update(places)
        for place in places:
            self._lost.pop(place, None)

    def _reset_lost(self) -> None:
        """Apply `auto.offset.reset` to a partition that has nothing at its position; one partition in each turn.

        A broker that does not answer is asked again later, after the other partitions and with a longer time-out. A
        broker whose log seems to end before the position is also asked again: it may just have lost its leadership.
        """
        place = min(self._lost, key=lambda place: self._lost[place], default=None)
        if place is None or time.monotonic() < self._lost[place]:
            return
        at = self._next[place]
        try:
            begin, end = self._edges(place)
        except KafkaException as error:
            if is_unavailable(kafka_error(error)) or kafka_error(error).code() in PASSING:
                self._ask_s = min(2 * self._ask_s, _LONGEST_ASK_S)
                self._lost[place] = time.monotonic() + 2 * self._ask_s
                return
            raise translate(error, f"asking where {place.topic}-{place.partition} goes on", self._bootstrap) from error
        self._ask_s = _FIRST_ASK_S
        is_beyond = at.offset > end
        is_confirmed = self._doubts.confirmed([place], [place] if is_beyond else [], time.monotonic(), SURE_S)
        if at.offset < begin or is_confirmed or place in self._cut:
            self._reset_to_edge(place, at.offset, begin, end)
        elif is_beyond:
            self._lost[place] = time.monotonic() + _DOUBT_EVERY_S
        else:
            self._go_to({place: LogPosition(at.offset)})  # its broker was not its leader

    def _edges(self, place: TopicPartition) -> tuple[int, int]:
        begin, end = self._consumer.get_watermark_offsets(ClientPartition(*place), timeout=self._ask_s)
        return begin, end

    def _reset_to_edge(self, place: TopicPartition, at: int, begin: int, end: int) -> None:
        self._doubts.forget([place])
        if self._resets_of(place) == "error":
            raise nowhere_to_begin(place, f"offset {at} is out of range")
        offset = end if self._resets_of(place) == "latest" else max(begin, 0)
        log.warning(
            "%s-%d has nothing at offset %d: it is read from offset %d on, as auto.offset.reset is %s",
            *place, at, offset, self._resets_of(place),
        )  # fmt: skip
        self._go_to({place: LogPosition(offset)})

    # the assignment

    def _begin(self, begins: Mapping[TopicPartition, int]) -> None:
        if len(self._begins) > _MOST_PARTITIONS and not self._fetches:
            self._switch_to_client(f"it has {len(self._begins)} partitions")
        if self._fetches:
            self._fetch_on(begins)  # a partition that was paused when it was revoked is still paused
        else:
            super()._begin(begins)
            self._go_to({place: LogPosition(offset) for place, offset in begins.items()})

    def _switch_to_client(self, why: str) -> None:
        """Let the client fetch from now on, after the last returned records."""
        log.info("this member of group %s has its client fetch from now on: %s", self._group, why)
        positions, self._next = self._next, {}
        self._drop(positions)
        self._reader.close()
        self._fetches = True
        self._fetch_on(positions.keys() - self._paused)
        self._seek({place: at.offset for place, at in positions.items()})

    def _let_go(self, places: Collection[TopicPartition]) -> None:
        self._drop(places)
        self._doubts.forget(places)
        for place in places:
            self._next.pop(place, None)
            self._ends.pop(place, None)
