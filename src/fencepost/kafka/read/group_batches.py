"""A member of a consumer group that reads in whole batches: librdkafka is the member, `BatchReader` brings the data.

The client owns all partitions, paused. It assigns and revokes them, and it commits. It is polled at least every 100 ms,
because its callbacks and `max.poll.interval.ms` need that. If it is better at reading than the reader, it also fetches,
from then on and for good: with very many partitions, with small batches, or if a connection to a broker fails.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException

from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.read.assignment import AssignedPartitions, Assignee, Fetcher
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.client_fetcher import READING, ClientFetcher
from fencepost.kafka.read.fetched_queue import Unread, UnreadFetched
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.read.known_positions import assigned_log, committed_position
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.read.position_resets import PositionResets
from fencepost.kafka.read.waiting_records import WaitingRecords
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_TURN_S = 0.1  # how long the reader may wait before the group's callbacks run
_AT_ONCE = 10_000  # records that are decoded together, or more: a few dozen of Arrow's steps for all of them
_MOST_PARTITIONS = 200  # a reader names all its partitions in each request
_LOOK_AT, _LEAST_RECORDS = 200, 20  # batches to average over; with fewer records a batch the client is cheaper
_LONG_S = 2.0  # a reader is delayed this long only by a broker that is away


class BatchGroupInput(GroupInput):
    """A `GroupInput` that reads whole batches and checks them (E22). For one thread, except `abandon`."""

    def __init__(
        self,
        conf: Mapping[str, Any],
        topics: Sequence[str] | Callable[[str], object],
        assignee: Assignee,
        *,
        whole: Collection[str] = (),
    ) -> None:
        """Raises KafkaRequestError for settings that the client or the reader does not support."""
        reader = BatchReader(conf, Unread(), doing=READING.format(conf.get("group.id")))
        super().__init__(conf, topics, assignee, fetcher=lambda of: BatchFetcher(of, reader), whole=whole)


class ClientPreference:
    """Decides that the client should fetch."""

    def __init__(self) -> None:
        self.why = ""
        """Why it should; empty as long as it should not."""
        self._batches = self._records = 0  # read since their size was last checked

    def look_at(self, fetched: UnreadFetched) -> None:
        """Choose the client if batches are small: the reader's cost is mostly per batch, not per record."""
        self._batches += len(fetched.entries)
        self._records += sum(batch.count for _, batch in fetched.entries)
        if self._batches >= _LOOK_AT:
            if self._records < _LEAST_RECORDS * self._batches:
                self.why = f"{self._batches} batches have {self._records} records"
            self._batches = self._records = 0


class BatchFetcher(Fetcher):
    """Fetches whole batches, until the client takes over.

    The position of a partition is that of the next record to return. Records that were read beyond it wait. They are
    dropped if the position moves elsewhere.
    """

    def __init__(self, assignment: AssignedPartitions, reader: BatchReader) -> None:
        self._assignment = assignment
        self._by_client = _ClientAfterBatches(assignment)
        self._reader = reader
        self._waiting = WaitingRecords()
        self._next: dict[TopicPartition, LogPosition] = {}
        self._ends: dict[TopicPartition, int] = {}  # of logs of partitions that the reader no longer reads
        self._resets = PositionResets(assignment.client, assignment.starts)
        self._preference = ClientPreference()

    def known_ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        ends = self._ends | self._reader.known_ends()
        return {place: end for place, end in ends.items() if place in places}

    def close(self) -> None:
        self._reader.close()

    # reading

    def chunks(self, timeout_s: float, most: int) -> Iterator[Fetched]:
        """Yield fetched records, after the callbacks have run: records of revoked partitions are left out (E14)."""
        if self._preference.why:
            self._switch_to_client(self._preference.why)
            yield from self._by_client.chunks(timeout_s, most)
            return
        until_s = time.monotonic() + timeout_s
        is_over = False
        while not is_over:
            found = self._served(until_s)
            if self._assignment.client.error is not None:
                return
            if self._is_replaced:  # since just now: the client may have fetched already
                yield found
                return
            left_s = until_s - time.monotonic()
            self._read(max(0.0, min(_TURN_S, left_s)), most)
            fetched = self._waiting.take(most)
            is_over = len(fetched) > 0 or bool(fetched.ends) or left_s <= 0
            self._record_positions(fetched)
            yield fetched

    def read_ahead(self, most: int) -> None:
        if self._preference.why or len(self._resets) or self._waiting.failure is not None:
            return
        try:
            self._read(0.0, most)
        except Exception as error:  # the next `chunks` raises it
            self._waiting.failure = error

    def _served(self, until_s: float) -> Fetched:
        """Run all callbacks of the group that are due. If nothing can be read, waits a moment for one.

        A callback may come after an event: a member that was away for too long first gets the reason, and then the
        callback for its lost partitions. No records come, because all partitions are paused in the client.
        """
        is_idle = not (self._reading() or len(self._waiting))
        timeout_s = max(0.0, min(_TURN_S, until_s - time.monotonic())) if is_idle else 0.0
        client = self._assignment.client
        found: list[Any] = []
        try:
            while (message := client.consumer.poll(timeout_s)) is not None:
                found.append(message)
                timeout_s = 0.0
                if self._is_replaced or client.error is not None:
                    break
        except KafkaException as error:
            raise client.failed(error, READING.format(client.group)) from error
        return self._by_client.sorted(found)

    @property
    def _is_replaced(self) -> bool:
        return self._assignment.fetcher is not self

    def _reading(self) -> bool:
        return len(self._next) > len(self._assignment.paused) + len(self._resets)

    def _read(self, timeout_s: float, most: int) -> None:
        """Read once, unless `most` records already wait. Waits for records only if none wait."""
        if moved := self._resets.maybe_reset(self._next):
            back = {p: at.offset for p, at in moved.items() if at.offset < self._next[p].offset}
            self._go_to(moved)
            self._assignment.starts.known.go_back(back)
        if len(self._waiting) >= most or not self._reading():
            return
        began_s = time.monotonic()
        timeout_s = 0.0 if len(self._waiting) else timeout_s
        read = self._taken(timeout_s, max(most, _AT_ONCE))
        if time.monotonic() - began_s > timeout_s + _LONG_S:
            self._preference.why = "a broker cannot be connected to"
        self._heed(read)
        if isinstance(read.fetched, UnreadFetched):
            self._preference.look_at(read.fetched)
            self._waiting.add(read.fetched)

    def _taken(self, timeout_s: float, most: int) -> Read:
        try:
            return self._reader.read(timeout_s, most)
        except KafkaUnavailableError as error:
            log.debug("%s", error)
            time.sleep(timeout_s)  # otherwise the next request would follow at once
            return Read()

    def _heed(self, read: Read) -> None:
        """Handle everything in the result except records. Raises KafkaAuthorizationError."""
        paused = self._assignment.paused
        self._resets.add([place for place in read.lost if place in self._next and place not in paused], read)
        self._resets.answered(self._reader.known_ends)
        client = self._assignment.client
        doing = READING.format(client.group)
        read.ensure_allowed(doing, str(client.conf.get("bootstrap.servers", "")))

    def _record_positions(self, fetched: Fetched) -> None:
        positions = {
            place: LogPosition(offset, self._topic_id(place), epoch)
            for place, (offset, epoch) in fetched.epochs.items()
        }
        self._next.update(positions)
        self._by_client.let_go(positions)
        self._assignment.starts.known.read_to(positions)
        self._resets.continued(positions)

    def _topic_id(self, place: TopicPartition) -> str:
        """Return the id of the topic from which a partition is read; empty if brokers are asked for topics by name."""
        return self._reader.topic_id(place) if self._reader.knows_topics else ""

    # positions

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        known = self._assignment.starts.known
        topic_ids = {place: self._next[place].topic_id for place in offsets if place in self._next}
        self._go_to(
            {
                place: known.at(place, offset) or LogPosition(offset, topic_ids.get(place, ""))
                for place, offset in offsets.items()
            }
        )

    def _go_to(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        self.stop(positions)
        self._next.update(positions)
        self._assignment.starts.known.move(positions)
        self.resume([place for place in positions if place not in self._assignment.paused])

    def stop(self, places: Collection[TopicPartition]) -> None:
        """Stop reading these partitions, and drop their records that were read but not returned."""
        self._ends |= self._reader.known_ends()
        self._reader.unassign(places)
        self._waiting.drop(places)
        self._resets.drop(places)

    def resume(self, places: Collection[TopicPartition]) -> None:
        self._reader.assign({place: self._next[place] for place in places if place in self._next})

    # the assignment

    def starts(
        self, places: Collection[TopicPartition], committed: Mapping[TopicPartition, GroupOffset]
    ) -> Mapping[TopicPartition, int]:
        """Compare offsets that were committed while a client fetched. A reader fetches with the epochs of others.

        It does so, too, after the last records of partitions that have no leader yet. They stay `away` for the client,
        which takes over without epochs, until a leader has answered.
        """
        if len(self._assignment.begins) + len(places) > _MOST_PARTITIONS:
            return self._by_client.starts(places, committed)
        positions = {place: committed_position(each) for place, each in committed.items()}
        self._assignment.starts.known.move(positions)
        logs = {place: log for place, each in committed.items() if (log := assigned_log(each)) is not None}
        by_client = {place: committed[place] for place in logs if not positions[place].topic_id}
        starts = self._by_client.starts(by_client.keys(), by_client) if by_client else {}
        self._assignment.starts.known.is_by_client = False
        away = self._by_client.away.intersection(by_client)
        return {**starts, **{place: logs[place].read_to for place in away}}

    def begin(self, begins: Mapping[TopicPartition, int]) -> None:
        if len(self._assignment.begins) > _MOST_PARTITIONS:
            self._switch_to_client(f"it has {len(self._assignment.begins)} partitions")
            self._by_client.begin(begins)
        else:
            self._assignment.client.pause(begins)
            self.seek(begins)

    def _switch_to_client(self, why: str) -> None:
        """Let the client fetch from now on, after the last returned records."""
        log.info("this member of group %s has its client fetch from now on: %s", self._assignment.client.group, why)
        positions, self._next = self._next, {}
        self._by_client.take_over(positions)
        self.stop(positions)
        self._reader.close()
        self._assignment.fetcher = self._by_client
        self._by_client.resume(positions.keys() - self._assignment.paused)
        self._by_client.seek({place: at.offset for place, at in positions.items()})

    def let_go(self, places: Collection[TopicPartition]) -> None:
        self.stop(places)
        self._resets.forget(places)
        self._by_client.let_go(places)
        for place in places:
            self._next.pop(place, None)
            self._ends.pop(place, None)


class _ClientAfterBatches(ClientFetcher):
    """Takes over from a `BatchFetcher`."""

    def take_over(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Go on with the ids of the topics that were read."""
        self._topic_ids.update((place, at.topic_id) for place, at in positions.items())
        self._assignment.starts.known.is_by_client = True
