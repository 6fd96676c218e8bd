"""A member of a consumer group that reads in whole batches: librdkafka is the member, `BatchReader` brings the data.

The client has all partitions, paused. It gives them and takes them away, and it commits; that it is polled at least
every 100 ms is what its callbacks and `max.poll.interval.ms` need. A reader names all its partitions in each request:
with very many of them the client fetches itself.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from fencepost.kafka.batch.reader import BatchReader
from fencepost.kafka.errors import KafkaUnavailableError, is_unavailable, kafka_error, translate
from fencepost.kafka.group_input import PASSING, Assignee, Fetched, GroupInput, nowhere_to_begin
from fencepost.kafka.log_gap import LogPosition
from fencepost.kafka.plan_reader import Read
from fencepost.kafka.unread import Unread, UnreadFetched
from fencepost.kafka.waiting_records import WaitingRecords
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_TURN_S = 0.1  # how long the reader may wait before callbacks of the group are served
_AT_ONCE = 10_000  # records that are decoded together, or more: a few dozen of Arrow's steps for all of them
_MOST_PARTITIONS = 200  # for which all are named in each request
_FIRST_ASK_S, _LONGEST_ASK_S = 0.1, 2.0


class BatchGroupInput(GroupInput):
    """A `GroupInput` whose records come in batches, and are checked (E22). For one thread, except `abandon`.

    The position of a partition is that of the next record that is handed over: what was read beyond it waits, and is
    dropped wherever that record is another than the one that follows.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        topics: Sequence[str] | Callable[[str], object],
        assignee: Assignee,
        *,
        whole: Collection[str] = (),
    ) -> None:
        """Raise KafkaRequestError for settings that the client or the reader does not take."""
        self._reader = BatchReader(conf, Unread(), doing=f"reading as a member of group {conf.get('group.id')}")
        self._waiting = WaitingRecords()
        self._next: dict[TopicPartition, LogPosition] = {}
        self._ends: dict[TopicPartition, int] = {}  # of logs of what the reader has read before
        self._lost: set[TopicPartition] = set()  # nothing is at their positions
        self._ask_s = _FIRST_ASK_S  # how long a broker is waited for that is asked where they go on
        self._ask_due_s = 0.0
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

    def _lots(self, timeout_s: float, most: int) -> Iterator[Fetched]:
        """Return what has come, once callbacks were served: what they have taken away is not there any more (E14)."""
        if self._fetches:
            yield from self._noted_lots(super()._lots(timeout_s, most))
            return
        until_s = time.monotonic() + timeout_s
        is_over = False
        while not is_over:
            found = self._served(until_s)
            if self._trouble is not None:
                return
            if self._fetches:  # from now on: a record may have come as it was assigned
                yield from self._noted_lots([found])
                return
            left_s = until_s - time.monotonic()
            self._read(max(0.0, min(_TURN_S, left_s)), most)
            fetched = self._waiting.take(most)
            is_over = len(fetched) > 0 or bool(fetched.ends) or left_s <= 0
            self._note(fetched)
            yield fetched

    def _served(self, until_s: float) -> Fetched:
        """Have callbacks of the group called; that is all there is to wait for where nothing is read.

        What comes beside is nothing, as long as all partitions are paused in the client.
        """
        is_idle = not (self._reading() or len(self._waiting))
        try:
            message = self._consumer.poll(max(0.0, min(_TURN_S, until_s - time.monotonic())) if is_idle else 0)
        except KafkaException as error:
            raise translate(error, f"reading as a member of group {self._group}", self._bootstrap) from error
        return Fetched() if message is None else self._sorted([message])

    def _reading(self) -> bool:
        return len(self._next) > len(self._paused) + len(self._lost)

    def _read(self, timeout_s: float, most: int) -> None:
        """Have so many records wait, if they have come; waits for the first where there are none."""
        self._reset_lost()
        if len(self._waiting) >= most or not self._reading():
            return
        read = self._taken(0.0 if len(self._waiting) else timeout_s, max(most, _AT_ONCE))
        self._heed(read)
        if isinstance(read.fetched, UnreadFetched):
            self._waiting.add(read.fetched)

    def _taken(self, timeout_s: float, most: int) -> Read:
        try:
            return self._reader.read(timeout_s, most)
        except KafkaUnavailableError as error:
            log.debug("%s", error)
            time.sleep(timeout_s)  # else it would be asked again at once
            return Read()

    def _heed(self, read: Read) -> None:
        """Take note of all that is no record. Raises KafkaAuthorizationError."""
        self._lost |= {place for place in read.lost if place in self._next and place not in self._paused}
        if read.refused:
            topic = min(read.refused)
            raise translate(
                KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
                f"reading topic {topic} as a member of group {self._group}",
                self._bootstrap,
            )

    def _note(self, fetched: Fetched) -> None:
        """Take note of where partitions go on."""
        positions = {place: LogPosition(offset, epoch=epoch) for place, (offset, epoch) in fetched.epochs.items()}
        self._next.update(positions)

    # positions

    def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._go_to({place: LogPosition(offset) for place, offset in offsets.items()})
        if self._fetches:
            super()._seek(offsets)
        else:
            for place in offsets:
                self._due.pop(place, None)

    def _go_to(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Go on at other positions than those behind what was handed over."""
        self._drop(positions)
        self._next.update(positions)
        if not self._fetches:
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
        """Read nothing of these any more, and hand over nothing of them that was read."""
        self._ends |= self._reader.known_ends()
        self._reader.unassign(places)
        self._waiting.drop(places)
        self._lost -= set(places)

    def _reset_lost(self) -> None:
        """Go where `auto.offset.reset` says, of partitions that have nothing at their position.

        A broker that does not answer is asked again by a later call, which has more patience.
        """
        if time.monotonic() < self._ask_due_s:
            return
        for place in sorted(self._lost):
            at = self._next[place].offset
            if self._resets_of(place) == "error":
                raise nowhere_to_begin(place, f"offset {at} is out of range")
            try:
                offset = self._edge(self._consumer, place, self._ask_s)
            except KafkaException as error:
                if is_unavailable(kafka_error(error)) or kafka_error(error).code() in PASSING:
                    self._ask_s = min(2 * self._ask_s, _LONGEST_ASK_S)
                    self._ask_due_s = time.monotonic() + self._ask_s
                    return
                raise translate(
                    error, f"asking where {place.topic}-{place.partition} goes on", self._bootstrap
                ) from error
            log.warning(
                "%s-%d has nothing at offset %d: it is read from offset %d on, as auto.offset.reset is %s",
                *place, at, offset, self._resets_of(place),
            )  # fmt: skip
            self._ask_s = _FIRST_ASK_S
            self._go_to({place: LogPosition(offset)})

    # the assignment

    def _begin(self, begins: Mapping[TopicPartition, int]) -> None:
        others = {place: at for place, at in self._next.items() if place not in begins}
        is_many = len(self._begins) > _MOST_PARTITIONS
        if is_many is not self._fetches:
            self._change_hands(others, to_client=is_many)
        super()._begin(begins)
        self._go_to({place: LogPosition(offset) for place, offset in begins.items()})

    def _change_hands(self, positions: Mapping[TopicPartition, LogPosition], *, to_client: bool) -> None:
        """Have the client fetch from now on, or the reader: what a member keeps goes on where it stands."""
        log.info(
            "of %d partitions, %s fetches", len(self._begins), "the client" if to_client else "a reader of batches"
        )
        running = positions.keys() - self._paused
        if to_client:
            self._drop(positions)
            self._fetches = True
            self._fetch_on(running)
            self._seek({place: at.offset for place, at in positions.items()})
        else:
            self._stop_fetching(running)
            self._fetches = False
            self._go_to(positions)

    def _let_go(self, places: Collection[TopicPartition]) -> None:
        self._drop(places)
        for place in places:
            self._next.pop(place, None)
            self._ends.pop(place, None)

    # where the client fetches

    def _noted_lots(self, lots: Iterable[Fetched]) -> Iterator[Fetched]:
        """Return what the client has, and note where partitions go on in case the reader takes over."""
        for lot in lots:
            if not self._fetches:
                return  # it has, in a callback just now, and begins before these
            behind = {**lot.next_offsets(), **lot.ends} if len(lot) else lot.ends
            moved = {place: LogPosition(at) for place, at in behind.items() if place in self._next}
            self._next.update((place, at) for place, at in moved.items() if place not in self._due)
            yield lot
