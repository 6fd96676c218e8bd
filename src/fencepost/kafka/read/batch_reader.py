"""`BatchReader`: reads partitions in whole batches, without looking at single records (E22).

Each broker that leads some of the partitions has one request under way, which is sent before the previous answer is
returned to the caller. There is no thread. An answer for a position that has changed in the meantime is ignored.

Requests name topics by their ids, if these are known and the brokers support them. A topic that was deleted and created
again is another topic, and a broker that has only the new one answers so.
"""

import threading
import time
from base64 import urlsafe_b64decode
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from confluent_kafka import KafkaError

from fencepost.config import ConfigError
from fencepost.kafka.codec.committed import Answered, CopiedBatch, FetchedBatch, Position, committed_batches, copied
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, translate
from fencepost.kafka.read.plan_reader import DOING, ClientReader, Read
from fencepost.kafka.setting.batch_settings import FetchSettings
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.kafka.value.whole import WholeBatches, WholeFetched
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import Cluster
from fencepost.kafka.wire.connection import Connection, answering
from fencepost.kafka.wire.errors import AnswerError, LostError, UnsupportedError, ensure
from fencepost.record import TopicPartition

# The first version that lists aborted transactions; the last that names topics, which also reports a truncated log; the
# first with topic ids. From version 11 on a broker may name another replica to read from (KIP-392). Such a broker gets
# requests of the version before.
_VERSIONS, _OF_LEADERS, _BY_ID = (4, 12), 10, 13
_REST_S, _REFUSED_REST_S = 0.1, 5.0
_CONNECT_S = 5.0
_LONG_S = 1.0  # a call that has waited this long for unreachable brokers tries no further one
_TURN_S = 0.1  # how long one answer is read before the others' turn
_NO_ID = UUID(int=0)
_ELSEWHERE = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
_OTHER_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_ID, KafkaError.INCONSISTENT_TOPIC_ID})
_DENIED = frozenset({KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION})


class _Asked(NamedTuple):
    """A request under way, with the positions it asks for, except unassigned ones, its topics, and its start time."""

    node: int
    connection: Connection
    positions: dict[TopicPartition, Position]
    topics: Mapping[UUID, str]
    since_s: float


class Counted(Protocol):
    """A part of an answer, with its number of records."""

    @property
    def count(self) -> int: ...


class FetchedForm(Protocol):
    """The form in which a reader returns committed batches."""

    def made(self, batches: Sequence[FetchedBatch], wanted: int) -> Sequence[Counted]:
        """Convert batches of a partition that was read from offset `wanted` on. Raises CorruptBatchError.

        The batches are views of the answer's bytes.
        """

    def fetched(self, entries: Sequence[tuple[TopicPartition, Any]]) -> Fetched:
        """Return the converted batches, in order, with their partitions."""


class _Copies:
    """Batches to write elsewhere."""

    def made(self, batches: Sequence[FetchedBatch], wanted: int) -> Sequence[CopiedBatch]:
        return copied(batches, wanted, int(time.time() * 1000))

    def fetched(self, entries: Sequence[tuple[TopicPartition, Any]]) -> Fetched:
        return WholeFetched(WholeBatches(entries))


class BatchReader:
    """A `PlanReader`. It commits with a librdkafka client, which is created for the first commit."""

    def __init__(self, conf: Mapping[str, Any], form: FetchedForm | None = None, *, doing: str = DOING) -> None:
        """`conf` has librdkafka's names. Without a `form`, batches are returned as copies to write elsewhere.

        Errors name `doing` as what failed. Raises KafkaRequestError for settings that this reader does not support.
        """
        self._conf = dict(conf)
        self._form = form or _Copies()
        self._doing = doing
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        try:
            self._settings, access = FetchSettings.of(conf), Access.of(conf)
        except (ConfigError, ValueError, OSError) as error:
            raise KafkaRequestError(str(error), KafkaError._INVALID_ARG) from None
        self._answer_s = access.answer_s
        self._cluster = Cluster(access, self._settings.metadata_age_s, awaits_topics=False)
        self._at: dict[TopicPartition, Position] = {}  # where to fetch next
        self._ids: dict[str, UUID] = {}
        self._has_asked_by_name = False
        self._directing: set[int] = set()  # brokers that have named another replica
        self._ends: dict[TopicPartition, int] = {}  # of logs, as of the last answers
        self._rests: dict[TopicPartition, float] = {}  # until when a partition is not asked for
        self._asked: dict[int, _Asked] = {}
        self._come: deque[tuple[TopicPartition, Counted | Position]] = deque()  # batches, and positions after them
        self._found = Read()
        self._committer: ClientReader | None = None
        self._in_commit = threading.Lock()
        self._is_closed = False

    @property
    def commit_error(self) -> str | None:
        return None if self._committer is None else self._committer.commit_error

    @property
    def knows_topics(self) -> bool:
        return not self._has_asked_by_name

    def assign(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        for place, position in positions.items():
            self._ids[place.topic] = _uuid(position.topic_id)
            self._at[place] = Position(position.offset, position.epoch)
        self._ids = {topic: id_ for topic, id_ in self._ids.items() if id_ != _NO_ID}

    def unassign(self, places: Collection[TopicPartition]) -> None:
        gone = set(places)
        for place in gone:
            self._at.pop(place, None)
            self._ends.pop(place, None)
            for asked in self._asked.values():
                asked.positions.pop(place, None)
        self._come = deque(each for each in self._come if each[0] not in gone)

    def known_ends(self) -> dict[TopicPartition, int]:
        """Return the end offsets of the partitions' logs from the last answers, without asking a broker."""
        return dict(self._ends)

    def read(self, timeout_s: float, most: int, most_bytes: int | None = None) -> Read:
        """Return fetched batches. The batch that reaches `most` records, or `most_bytes` of copies, is the last.

        Raises CorruptBatchError, KafkaAuthorizationError, KafkaRequestError.
        """
        if self._committer is not None:
            self._committer.serve()
        until_s = time.monotonic() + timeout_s
        is_quick = self._ask()
        while not self._come:
            left_s = until_s - time.monotonic()
            self._take_answers(max(0.0, left_s))
            is_quick = is_quick and self._ask()
            if left_s <= 0 or self._found.lost:
                break
        found, self._found = self._found, Read()
        found.fetched = self._handed_over(most, float("inf") if most_bytes is None else most_bytes)
        return found

    def commit(self, offsets: Collection[GroupOffset]) -> None:
        with self._in_commit:
            if self._committer is None and offsets and not self._is_closed:
                self._committer = ClientReader(self._conf)
        if self._committer is not None:
            self._committer.commit(offsets)

    def close(self) -> None:
        with self._in_commit:
            self._is_closed = True
        self._cluster.close()
        if self._committer is not None:
            self._committer.close()

    def _handed_over(self, most: int, most_bytes: float) -> Fetched:
        entries: list[tuple[TopicPartition, Counted]] = []
        next_offsets: dict[TopicPartition, Position] = {}
        count = size_bytes = 0
        while self._come and ((count < most and size_bytes < most_bytes) or isinstance(self._come[0][1], Position)):
            place, one = self._come.popleft()
            if isinstance(one, Position):
                next_offsets[place] = one
            else:
                entries.append((place, one))
                count += one.count
                size_bytes += one.size_bytes if isinstance(one, CopiedBatch) else 0
        fetched = self._form.fetched(entries)
        fetched.ends = {place: position.offset for place, position in next_offsets.items()}
        fetched.epochs = dict(next_offsets)
        return fetched

    # asking

    def _ask(self) -> bool:
        """Send a request to each broker that has none under way.

        Returns False if a broker could not be reached for a long time. The next call asks the remaining brokers, so
        that no call takes very long.
        """
        now_s = time.monotonic()
        self._rests = {place: until_s for place, until_s in self._rests.items() if until_s > now_s}
        under_way = {place for asked in self._asked.values() for place in asked.positions}
        due = [place for place in self._at if place not in self._rests and place not in under_way]
        for node, places in self._by_leader(due).items():
            if node not in self._asked:
                self._ask_node(node, places)
            if time.monotonic() - now_s > _LONG_S:
                break
        return time.monotonic() - now_s <= _LONG_S

    def _by_leader(self, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for topic, run in groupby(places, lambda place: place.topic):
            of_topic = list(run)
            try:
                leaders = self._cluster.leaders(topic, time.monotonic() + _CONNECT_S)
            except AnswerError as error:
                self._record_failure(of_topic, error)
                continue
            except (LostError, UnsupportedError) as error:
                self._found.away = str(error)
                self._rest([place for place in self._at if place not in self._rests])
                return found
            for place in of_topic:
                leader = leaders[place.partition] if place.partition < len(leaders) else -1
                if leader >= 0:
                    found[leader].append(place)
                else:
                    self._look_again([place])
        return found

    def _ask_node(self, node: int, places: list[TopicPartition]) -> None:
        began_s = time.monotonic()
        try:
            connection = self._cluster.connection(node, began_s + _CONNECT_S)
            if connection.is_throttled:
                return
            positions = {place: self._at[place] for place in places}
            request = self._request(positions)
            version = self._version(node, connection, request, places)
            topics = {self._ids[place.topic]: place.topic for place in places} if version == _BY_ID else {}
            asked = _Asked(node, connection, positions, topics, time.monotonic())
            connection.send(request, version, lambda answer: self._answered(asked, answer), began_s + self._answer_s)
            self._asked[node] = asked
        except AnswerError as error:
            self._record_failure(places, error)
        except (LostError, UnsupportedError) as error:
            self._cluster.let_go(node)
            self._found.away = None if self._asked else str(error)
            self._look_again(places, max(_REST_S, 2 * (time.monotonic() - began_s)))

    def _version(self, node: int, connection: Connection, request: Any, places: Iterable[TopicPartition]) -> int:
        """Return the request version. Requests by name do not ensure which topic the records are from."""
        if node not in self._directing and all(place.topic in self._ids for place in places):
            with suppress(UnsupportedError):
                return connection.version(request, _BY_ID, _BY_ID)
        oldest, newest = _VERSIONS
        version = connection.version(request, oldest, _OF_LEADERS if node in self._directing else newest)
        self._has_asked_by_name = True
        return version

    def _request(self, positions: Mapping[TopicPartition, Position]) -> Any:
        """Return a request without a session. An answer is filled in the order of partitions, up to its maximum size.

        The next request begins with another partition.
        """
        from fencepost.kafka.kafka_library import FetchRequest as Request

        settings = self._settings
        topics = [
            Request.FetchTopic(
                topic=topic,
                topic_id=self._ids.get(topic, _NO_ID),
                partitions=[
                    Request.FetchTopic.FetchPartition(
                        partition=place.partition,
                        current_leader_epoch=self._cluster.epochs(place.topic)[place.partition],
                        fetch_offset=positions[place].offset,
                        last_fetched_epoch=positions[place].epoch,
                        log_start_offset=-1,
                        partition_max_bytes=settings.partition_bytes,
                    )
                    for place in run
                ],
            )
            for topic, run in groupby(positions, lambda place: place.topic)
        ]
        return Request(
            replica_id=-1,
            max_wait_ms=settings.wait_ms,
            min_bytes=settings.least_bytes,
            max_bytes=settings.most_bytes,
            isolation_level=int(settings.is_committed),
            session_id=0,
            session_epoch=-1,
            topics=topics,
            forgotten_topics_data=[],
            rack_id="",
        )

    # answers

    def _take_answers(self, timeout_s: float) -> None:
        if not self._asked:
            time.sleep(min(timeout_s, _REST_S))
            return
        of_connection = {asked.connection: asked for asked in self._asked.values()}
        for connection in dict.fromkeys((*answering(list(of_connection), timeout_s), *self._overdue())):
            asked = of_connection[connection]
            del self._asked[asked.node]
            try:
                if not self._is_taken(asked):
                    self._asked[asked.node] = asked
            except AnswerError as error:
                self._record_failure(list(asked.positions), error)
            except LostError as error:
                self._cluster.let_go(asked.node)
                self._found.away = None if self._asked else str(error)
                self._look_again(asked.positions)

    def _overdue(self) -> list[Connection]:
        return [asked.connection for asked in self._asked.values() if self._is_overdue(asked)]

    def _is_overdue(self, asked: _Asked) -> bool:
        return time.monotonic() - asked.since_s > self._answer_s

    def _is_taken(self, asked: _Asked) -> bool:
        """Read what has arrived of an answer. Returns whether it is complete.

        A broker may stop in the middle of an answer. The others do not wait for it, and once it is overdue it is lost.
        """
        if self._is_overdue(asked):
            asked.connection.take(time.monotonic())
        return asked.connection.take_coming(time.monotonic() + _TURN_S)

    def _answered(self, asked: _Asked, answer: Any) -> None:
        ensure(answer.error_code or 0, "a fetch")
        for topic in answer.responses:
            for each in topic.partitions:
                name = asked.topics[topic.topic_id] if asked.topics else topic.topic
                place = TopicPartition(name, each.partition_index)
                if place not in asked.positions:
                    continue  # it was unassigned, and may by now have another position or topic
                if each.error_code:
                    self._record_failure([place], AnswerError(each.error_code, f"a fetch of {place.topic}"))
                elif each.diverging_epoch is not None:
                    self._found.cut.add(place)
                    self._record_lost([place])
                elif each.preferred_read_replica >= 0:
                    self._directing.add(asked.node)
                else:
                    self._take(place, asked.positions[place], each)

    def _take(self, place: TopicPartition, wanted: Position, answer: Any) -> None:
        is_committed = self._settings.is_committed
        self._ends[place] = answer.high_watermark
        aborted = [(each.first_offset, each.producer_id) for each in answer.aborted_transactions or ()]
        stable = answer.last_stable_offset if is_committed else -1
        try:
            found = Answered(memoryview(answer.records or b""), stable, aborted if is_committed else ())
            batches, position = committed_batches(found, wanted)
            made = self._form.made(batches, wanted.offset)
        except CorruptBatchError as error:
            raise CorruptBatchError(f"{place.topic}-{place.partition}: {error}") from error
        self._come.extend((place, one) for one in made)
        if position.offset > wanted.offset:
            self._come.append((place, position))
            del self._at[place]  # so it comes last in the next request
            self._at[place] = position

    # what goes wrong

    def _record_failure(self, places: list[TopicPartition], error: AnswerError) -> None:
        """Record what is wrong with partitions. Raises errors that a retry would not change."""
        if error.code == KafkaError.OFFSET_OUT_OF_RANGE:
            self._record_lost(places)
        elif error.code in _OTHER_TOPIC:
            self._look_again(places)  # even if it is assigned again at once: the broker may not know it yet
            self._record_lost(places)
        elif error.code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._found.refused |= {place.topic: str(error) for place in places}
            self._rest(places, _REFUSED_REST_S)
        elif error.code in _DENIED:
            why = f"Not let in while {self._doing} (bootstrap.servers={self._bootstrap}): {error} {error.detail or ''}"
            raise KafkaAuthorizationError(f"{why.rstrip()}. Correct the credentials of the consumer")
        elif error.code in _ELSEWHERE:
            self._look_again(places)
        elif error.code == KafkaError.INVALID_MSG:
            named = ", ".join(f"{place.topic}-{place.partition} at offset {self._at[place].offset}" for place in places)
            raise CorruptBatchError(f"The source's broker finds its log damaged: {named}")
        else:
            raise translate(KafkaError(error.code), self._doing, self._bootstrap)

    def _record_lost(self, places: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions until they are assigned again."""
        for place in places:
            self._found.lost.add(place)
            del self._at[place]

    def _look_again(self, places: Iterable[TopicPartition], rest_s: float = _REST_S) -> None:
        """Look up the leaders of these partitions again, a little later."""
        for topic in {place.topic for place in places}:
            self._cluster.forget(topic)
        self._rest(places, rest_s)

    def _rest(self, places: Iterable[TopicPartition], rest_s: float = _REST_S) -> None:
        until_s = time.monotonic() + rest_s
        self._rests.update((place, until_s) for place in places if place in self._at)


def _uuid(topic_id: str) -> UUID:
    """Parse a topic id in Kafka's notation. An empty one becomes the id that no topic has."""
    return UUID(bytes=urlsafe_b64decode(f"{topic_id}==")) if topic_id else _NO_ID
