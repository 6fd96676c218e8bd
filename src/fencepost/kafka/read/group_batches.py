"""A member of a consumer group that reads in whole batches: librdkafka is the member, `BatchReader` brings the data.

The client owns all partitions, paused. It assigns and revokes them, and it commits. It is polled at least every 100 ms,
because its callbacks and `max.poll.interval.ms` need that. If it is better at reading than the reader, it also fetches,
from then on and for good: with very many partitions, with small batches, or if a connection to a broker fails.

Decides where to continue in partitions that have nothing at their positions.

In a log that was cut, that is the end of what it has in common with what was read; else `auto.offset.reset` decides.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaException

from fencepost.kafka.errors import KafkaUnavailableError, is_unavailable, kafka_error
from fencepost.kafka.read.assignment import AssignedPartitions, Assignee, Fetcher
from fencepost.kafka.read.batch_reader import BatchReader
from fencepost.kafka.read.client_fetcher import READING, ClientFetcher
from fencepost.kafka.read.consumer import UNKNOWN_PARTITION
from fencepost.kafka.read.doubt import DOUBT_EVERY_S, SURE_S, Doubts, LowestEnds
from fencepost.kafka.read.fetched_queue import Unread, UnreadFetched, WaitingRecords
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.read.known_positions import (
    PositionReader,
    Restart,
    StartPositions,
    assigned_log,
    committed_position,
    nowhere_to_begin,
)
from fencepost.kafka.read.member_client import MemberClient
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import NO_EPOCH, GroupOffset, LogPosition
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_FIRST_ASK_S, _LONGEST_ASK_S = 0.1, 2.0


class PositionResets:
    """The partitions at whose positions there is nothing. Each is asked for the edges of its log."""

    def __init__(self, client: MemberClient, starts: StartPositions) -> None:
        self._client = client
        self._starts = starts
        self._lost: dict[TopicPartition, float] = {}  # when to ask for the log's edges
        self._looks: dict[TopicPartition, float] = {}  # the same, for those that are in doubt and read again meanwhile
        self._read = Read()  # what was wrong with them
        self.doubts: Doubts[TopicPartition] = Doubts()
        """Logs that seem to end before the position, and topics that seem to be other ones."""
        self._lowest = LowestEnds()  # of these, if brokers cannot say up to where they are what was read
        self._ask_s = _FIRST_ASK_S  # how long to wait for an answer

    def __len__(self) -> int:
        return len(self._lost)

    @property
    def are_due(self) -> bool:
        """Say whether a position may move: nothing is there, or a log is in doubt and is being read again."""
        return len(self._lost) > 0 or len(self.doubts) > 0

    def add(self, lost: Collection[TopicPartition], read: Read) -> None:
        """Add partitions. `read` says what is wrong with them."""
        for place in lost:
            self._lost.setdefault(place, self._looks.get(place, 0.0))
        self._read.cut |= {place: common for place, common in read.cut.items() if place in self._lost}
        self._read.replaced |= self._lost.keys() & read.replaced

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Remove partitions: their positions have moved, or they are no longer read."""
        self._read.replaced.difference_update(places)
        for place in places:
            self._lost.pop(place, None)
            self._read.cut.pop(place, None)

    def maybe_reset(self, positions: Mapping[TopicPartition, LogPosition]) -> dict[TopicPartition, LogPosition]:
        """Return the position at which a partition should continue; one partition in each turn.

        A broker that does not answer is asked again later, after the other partitions and with a longer time-out. If
        what was read seems to be gone, the same position is tried for a while: the broker may just have lost its
        leadership.
        """
        place = min(self._lost, key=lambda place: self._lost[place], default=None)
        if place is None or time.monotonic() < self._lost[place]:
            return {}
        at = positions[place]
        try:
            begin, end = self._client.edges(place, self._ask_s)
        except KafkaException as error:
            if is_unavailable(kafka_error(error)) or kafka_error(error).code() in UNKNOWN_PARTITION:
                self._ask_s = min(2 * self._ask_s, _LONGEST_ASK_S)
                self._lost[place] = time.monotonic() + 2 * self._ask_s
                return {}
            raise self._client.failed(error, f"asking where {place.topic}-{place.partition} goes on") from error
        self._ask_s = _FIRST_ASK_S
        is_replaced, common = place in self._read.replaced, self._read.cut.get(place)
        seems_gone = is_replaced or common is not None or at.offset > end
        if at.offset < begin and not seems_gone:
            return {place: LogPosition(self._edge(place, at.offset, begin, end, is_cut=False))}
        if not seems_gone:
            self.continued([place])
            return {place: replace(at, epoch=NO_EPOCH)}  # its broker was not its leader
        if at.epoch == NO_EPOCH and not is_replaced:
            end = self._lowest.lowest(place, at.offset, end)
        if not self.doubts.confirmed([place], [place], time.monotonic(), SURE_S):
            self._looks[place] = time.monotonic() + DOUBT_EVERY_S
            return {place: at}
        if is_replaced or not at.topic_id:  # nothing says that the log is the one that was read
            return {place: LogPosition(self._edge(place, at.offset, begin, end, is_cut=not is_replaced))}
        common = common or LogPosition(end)
        offset = self._end_of_common(place, at.offset, max(begin, common.offset))
        return {place: LogPosition(offset, at.topic_id, common.epoch)}

    def answered(self, ends: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Forget doubts about partitions whose leaders have answered at their positions: they have an end."""
        if len(self.doubts):
            self.continued([place for place in ends() if place not in self._lost])

    def continued(self, places: Collection[TopicPartition]) -> None:
        """Forget doubts about partitions, as their logs continue at the positions."""
        self._lowest.passed(places)
        self.forget(places)

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Forget doubts about partitions: they are decided, or no longer read."""
        self.doubts.forget(places)
        self._lowest.forget(places)
        for place in places if self._looks else ():
            self._looks.pop(place, None)

    def _end_of_common(self, place: TopicPartition, at: int, end: int) -> int:
        """Return where to continue in a log that is still what was read only up to `end`. Raises KafkaRequestError."""
        self.forget([place])
        why = f"the log was cut: it is what was read before offset {at} only up to offset {end}"
        if self._starts.resets_of(place) == "error":
            raise nowhere_to_begin(place, why)
        log.warning("%s-%d is read from offset %d on: %s", *place, min(at, end), why)
        return self._restarted(place, Restart(min(at, end), is_cut=True))

    def _edge(self, place: TopicPartition, at: int, begin: int, end: int, *, is_cut: bool) -> int:
        self.forget([place])
        resets_to = self._starts.resets_of(place)
        if resets_to == "error":
            raise nowhere_to_begin(place, f"offset {at} is out of range")
        offset = self._starts.edge(place, begin, end)
        log.warning(
            "%s-%d has nothing at offset %d: it is read from offset %d on, as auto.offset.reset is %s",
            *place, at, offset, resets_to,
        )  # fmt: skip
        return self._restarted(place, Restart(offset, is_cut))

    def _restarted(self, place: TopicPartition, at: Restart) -> int:
        self._starts.restarts[place] = at
        return at.offset


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
        positions: PositionReader | None = None,
    ) -> None:
        """Raises KafkaRequestError for settings that the client or the reader does not support."""
        reader = BatchReader(conf, Unread(), doing=READING.format(conf.get("group.id")))
        super().__init__(
            conf, topics, assignee, fetcher=lambda of: BatchFetcher(of, reader), whole=whole, positions=positions
        )


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
        if self._preference.why and not self._resets.are_due:  # else it would not learn what is wrong with a position
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
        self._note_topic_ids()
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

        It does so, too, after the last records of partitions that have no leader yet. All stay `away` for the client,
        which takes over without epochs and topic ids, until a leader has answered the reader.
        """
        if len(self._assignment.begins) + len(places) > _MOST_PARTITIONS:
            return self._by_client.starts(places, committed)
        positions = {place: committed_position(each) for place, each in committed.items()}
        self._assignment.starts.known.move(positions)
        logs = {place: log for place, each in committed.items() if (log := assigned_log(each)) is not None}
        by_client = {place: committed[place] for place in logs if not positions[place].topic_id}
        starts = self._by_client.starts(by_client.keys(), by_client) if by_client else {}
        away = self._by_client.away.intersection(by_client)
        self._by_client.away.update(logs.keys() & self._assignment.starts.committed.keys())  # except dropped offsets
        return {**starts, **{place: logs[place].read_to for place in away}}

    def topic_ids(self) -> Mapping[TopicPartition, str]:
        """Return the ids of topics whose brokers are asked by name (Kafka 3.0), as they were at the first record."""
        return {} if self._reader.knows_topics else self._by_client.topic_ids()

    def ensure_same(self, ids: Mapping[str, str]) -> None:
        if not self._reader.knows_topics:
            self._by_client.ensure_same(ids)

    def _note_topic_ids(self) -> None:
        """Keep what the reader knows before it returns records: after a seek it looks the ids up again."""
        unknown = [place for place, id_ in self.topic_ids().items() if not id_]
        self._by_client.know({place: self._reader.topic_id(place) for place in unknown})

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
        self._by_client.let_go(self._reader.known_ends())
        self._by_client.know({place: at.topic_id for place, at in positions.items()})
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

    def know(self, topic_ids: Mapping[TopicPartition, str]) -> None:
        """Go on with the ids of the topics that were read; an empty one is not known."""
        self._topic_ids.update((place, id_) for place, id_ in topic_ids.items() if id_)
