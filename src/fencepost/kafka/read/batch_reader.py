"""`BatchReader`: reads partitions in whole batches, without looking at single records (E22).

Each broker that leads some of the partitions has one request under way, which is sent before the previous answer is
returned to the caller. There is no thread. An answer for a position that has changed in the meantime is ignored.

Requests name topics by their ids, if brokers support them: by the id that the caller knows, or by the one that the
topic has when it is first asked for. A topic that was deleted and created again is another topic, and a broker that has
only the new one answers so.
"""

import logging
import time
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from confluent_kafka import KafkaError

from fencepost.config import ConfigError
from fencepost.kafka.codec.committed import Position
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.errors import (
    NOT_AUTHENTICATED,
    AnswerError,
    KafkaAuthorizationError,
    KafkaRequestError,
    LostError,
    UnsupportedError,
    ensure,
    translate,
)
from fencepost.kafka.read.consumer import OffsetCommitter
from fencepost.kafka.read.fetched_queue import Copies, FetchedForm, FetchedQueue
from fencepost.kafka.read.plan_reader import DOING, Read
from fencepost.kafka.setting.batch_settings import FetchSettings
from fencepost.kafka.value.position import LogPosition
from fencepost.kafka.wire.access import Access
from fencepost.kafka.wire.cluster import Cluster, known_id, known_leader, text_of_id
from fencepost.kafka.wire.connection import Connection, answering
from fencepost.kafka.wire.experience import QUIET_S
from fencepost.record import TopicPartition, place_names

# The first version that lists aborted transactions; the last that names topics, which also reports a truncated log; the
# first with topic ids. From version 11 on a broker may name another replica to read from (KIP-392). Such a broker gets
# requests of the version before.
_VERSIONS, _OF_LEADERS, _BY_ID = (4, 12), 10, 13
_NO_ID = UUID(int=0)


class FetchRequests:
    """Names topics by their ids, if these are known and the broker supports them."""

    def __init__(self, settings: FetchSettings, cluster: Cluster) -> None:
        self._settings = settings
        self._cluster = cluster
        self._ids: dict[TopicPartition, UUID] = {}
        self.directing: set[int] = set()
        """Brokers that have named another replica."""
        self.has_named_topics = False
        """Whether a request did not ensure which topic the records are from."""

    def record_ids(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Use the topics' ids in these positions. One that is empty is found out with the next request."""
        for place, position in positions.items():
            self._ids.pop(place, None)
            if position.topic_id:
                self._ids[place] = _uuid(position.topic_id)

    def learn_ids(self, places: Iterable[TopicPartition]) -> None:
        """Use the ids that the topics of these partitions have now."""
        for place in places:
            if known := known_id(self._cluster, place.topic):
                self._ids[place] = _uuid(known)

    def id_of(self, place: TopicPartition) -> str:
        """Return the id of the topic from which a partition is read; empty if it is not known."""
        return text_of_id(self._ids.get(place))

    def version(
        self, node: int, connection: Connection, request: Any, places: Iterable[TopicPartition]
    ) -> tuple[int, Mapping[UUID, str]]:
        """Return the request version, and the topics that the answer gives by their ids."""
        asked = set(places)
        if node not in self.directing and asked <= self._ids.keys():
            with suppress(UnsupportedError):
                return connection.version(request, _BY_ID, _BY_ID), {self._ids[each]: each.topic for each in asked}
        oldest, newest = _VERSIONS
        version = connection.version(request, oldest, _OF_LEADERS if node in self.directing else newest)
        self.has_named_topics = True
        return version, {}

    def request(self, positions: Mapping[TopicPartition, Position]) -> Any:
        """Return a request without a session. An answer is filled in the order of partitions, up to its maximum size.

        The next request begins with another partition.
        """
        from fencepost.kafka.kafka_library import FetchRequest as Request

        settings = self._settings
        self.learn_ids(positions.keys() - self._ids.keys())
        topics = [
            Request.FetchTopic(
                topic=topic,
                topic_id=id_,
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
            for (topic, id_), run in groupby(positions, lambda place: (place.topic, self._ids.get(place, _NO_ID)))
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


def _uuid(topic_id: str) -> UUID:
    return UUID(bytes=urlsafe_b64decode(f"{topic_id}=="))


log = logging.getLogger(__name__)

REST_S, _FAULT_REST_S, _REFUSED_REST_S = 0.1, 1.0, 5.0
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


class FetchPositions:
    """The partitions that are read. Some rest for a while: they are not asked for."""

    def __init__(self) -> None:
        self.at: dict[TopicPartition, Position] = {}
        self.ends: dict[TopicPartition, int] = {}
        """The end offsets of logs, as of the last answers."""
        self._rests: dict[TopicPartition, float] = {}  # until when
        self._heard_s: dict[TopicPartition, float] = {}  # when something new came
        self._looked_s = time.monotonic()

    def due(self, under_way: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions to ask for, except those that are `under_way`."""
        now_s = time.monotonic()
        self._rests = {place: until_s for place, until_s in self._rests.items() if until_s > now_s}
        return [place for place in self.at if place not in self._rests and place not in under_way]

    def rest(self, places: Iterable[TopicPartition], rest_s: float) -> None:
        until_s = time.monotonic() + rest_s
        self._rests.update((place, until_s) for place in places if place in self.at)

    def rest_all(self) -> None:
        """Let all partitions rest that do not do so already."""
        self.rest([place for place in self.at if place not in self._rests], REST_S)

    def advance(self, place: TopicPartition, position: Position) -> None:
        """Continue at a position. The partition becomes the last of the next request."""
        del self.at[place]
        self.at[place] = position

    def hear(self, place: TopicPartition) -> None:
        """Record that something new of a partition has come."""
        self._heard_s[place] = time.monotonic()

    def quiet(self) -> list[TopicPartition]:
        """Return the partitions of which nothing new has come for some seconds; none if that was asked just before."""
        now_s = time.monotonic()
        if now_s - self._looked_s < QUIET_S:
            return []
        since_s, self._looked_s = self._looked_s, now_s
        return [place for place in self.at if self._heard_s.get(place, 0.0) < since_s]

    def remove(self, places: Collection[TopicPartition]) -> None:
        for place in places:
            self.at.pop(place, None)
            self.ends.pop(place, None)
            self._heard_s.pop(place, None)


class FetchFailures:
    """Records failures in `read`, the result of the call that is under way."""

    def __init__(self, cluster: Cluster, positions: FetchPositions, doing: str, bootstrap: str) -> None:
        """Errors name `doing` as what failed."""
        self.read = Read()
        self._cluster = cluster
        self._positions = positions
        self._doing = doing
        self._bootstrap = bootstrap

    def record(self, places: list[TopicPartition], error: AnswerError) -> None:
        """Record what is wrong with partitions. Raises errors that a retry would not change."""
        if error.code == KafkaError.OFFSET_OUT_OF_RANGE:
            self.record_lost(places)
        elif error.code in _OTHER_TOPIC:
            self.look_again(places)  # even if it is assigned again at once: the broker may not know it yet
            self.record_lost(places)
            self.read.replaced.update(places)
        elif error.code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self.read.refused |= {place.topic: str(error) for place in places}
            self._positions.rest(places, _REFUSED_REST_S)
        elif error.code in NOT_AUTHENTICATED:
            why = f"Not let in while {self._doing} (bootstrap.servers={self._bootstrap}): {error} {error.detail or ''}"
            raise KafkaAuthorizationError(f"{why.rstrip()}. Correct the credentials of the consumer")
        elif error.code in _ELSEWHERE:
            self.look_again(places)
        elif error.code == KafkaError.UNKNOWN:  # as of tiered storage
            log.warning("a broker failed to read %s, and is asked again", place_names(places))
            self.read.obstacle = f"a broker failed: {error}"
            self.look_again(places, _FAULT_REST_S)
        elif error.code == KafkaError.INVALID_MSG:
            at = self._positions.at
            named = ", ".join(f"{place.topic}-{place.partition} at offset {at[place].offset}" for place in places)
            raise CorruptBatchError(f"The source's broker finds its log damaged: {named}")
        else:
            raise translate(KafkaError(error.code), self._doing, self._bootstrap)

    def record_lost(self, places: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions until they are assigned again."""
        for place in places:
            self.read.lost.add(place)
            del self._positions.at[place]

    def record_cut(self, place: TopicPartition, common: LogPosition) -> None:
        """Stop reading a partition whose log has something else than what was read after the `common` part."""
        self.look_again([place])  # also if it is assigned again at once: the broker may not be its leader any more
        self.record_lost([place])
        self.read.cut[place] = common

    def look_again(self, places: Iterable[TopicPartition], rest_s: float = REST_S) -> None:
        """Look up the leaders of these partitions again, a little later."""
        for topic in {place.topic for place in places}:
            self._cluster.forget(topic)
        self._positions.rest(places, rest_s)


_CONNECT_S = 5.0
_LOOK_S = 3.0
_LONG_S = 1.0  # a call that has waited this long for unreachable brokers tries no further one
_TURN_S = 0.1  # how long one answer is read before the others' turn


class _Asked(NamedTuple):
    """A request under way, with the positions it asks for, except unassigned ones, its topics, and its start time."""

    node: int
    connection: Connection
    positions: dict[TopicPartition, Position]
    topics: Mapping[UUID, str]
    since_s: float


class BatchReader:
    """A `PlanReader`. It commits with a librdkafka client, which is created for the first commit."""

    def __init__(self, conf: Mapping[str, Any], form: FetchedForm | None = None, *, doing: str = DOING) -> None:
        """`conf` has librdkafka's names. Without a `form`, batches are returned as copies to write elsewhere.

        Errors name `doing` as what failed. Raises KafkaRequestError for settings that this reader does not support.
        """
        try:
            settings, access = FetchSettings.of(conf), Access.of(conf)
        except (ConfigError, ValueError, OSError) as error:
            raise KafkaRequestError(str(error), KafkaError._INVALID_ARG) from None
        self._answer_s = access.answer_s
        self._cluster = Cluster(access, settings.metadata_age_s, awaits_topics=False)
        self._positions = FetchPositions()
        self._requests = FetchRequests(settings, self._cluster)
        self._asked: dict[int, _Asked] = {}
        self._queue = FetchedQueue(form or Copies(), is_committed=settings.is_committed)
        self._failures = FetchFailures(self._cluster, self._positions, doing, str(conf.get("bootstrap.servers", "")))
        self.commits = OffsetCommitter(dict(conf))

    @property
    def knows_topics(self) -> bool:
        return not self._requests.has_named_topics

    def topic_id(self, place: TopicPartition) -> str:
        """Return the id of the topic from which a partition is read; empty if it is not known."""
        return self._requests.id_of(place)

    def assign(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        self._requests.record_ids(positions)
        for place, position in positions.items():
            self._positions.at[place] = Position(position.offset, position.epoch)

    def unassign(self, places: Collection[TopicPartition]) -> None:
        gone = set(places)
        self._positions.remove(gone)
        for asked in self._asked.values():
            for place in gone:
                asked.positions.pop(place, None)
        self._queue.drop(gone)

    def known_ends(self) -> dict[TopicPartition, int]:
        """Return the end offsets of the partitions' logs from the last answers, without asking a broker."""
        return dict(self._positions.ends)

    def read(self, timeout_s: float, most: int, most_bytes: int | None = None) -> Read:
        """Return fetched batches. The batch that reaches `most` records, or `most_bytes` of copies, is the last.

        Raises CorruptBatchError, KafkaAuthorizationError, KafkaRequestError.
        """
        self.commits.serve()
        self._look_elsewhere()
        until_s = time.monotonic() + timeout_s
        is_quick = self._ask()
        while not self._queue:
            left_s = until_s - time.monotonic()
            self._take_answers(max(0.0, left_s))
            is_quick = is_quick and self._ask()
            if left_s <= 0 or self._failures.read.lost:
                break
        found, self._failures.read = self._failures.read, Read()
        found.fetched = self._queue.take(most, float("inf") if most_bytes is None else most_bytes)
        return found

    def close(self) -> None:
        self._cluster.close()
        self.commits.close()

    # asking

    def _ask(self) -> bool:
        """Send a request to each broker that has none under way.

        Returns False if a broker could not be reached for a long time. The next call asks the remaining brokers, so
        that no call takes very long.
        """
        now_s = time.monotonic()
        due = self._positions.due({place for asked in self._asked.values() for place in asked.positions})
        for node, places in self._by_leader(due).items():
            if node not in self._asked:
                self._ask_node(node, places)
            if time.monotonic() - now_s > _LONG_S:
                break
        return time.monotonic() - now_s <= _LONG_S

    def _look_elsewhere(self) -> None:
        """Look up again who leads partitions of which nothing new comes, and leave brokers that no longer do.

        The broker that is asked may be cut off from the others, or stand still: another one is asked for the leaders.
        """
        quiet = self._positions.quiet()
        if not quiet:
            return
        self._cluster.renew({place.topic for place in quiet}, time.monotonic() + _LOOK_S)
        for asked in list(self._asked.values()):
            for place in quiet:
                if place in asked.positions and known_leader(self._cluster, place) != asked.node:
                    del asked.positions[place]
            if not asked.positions and time.monotonic() - asked.since_s > _LOOK_S:
                del self._asked[asked.node]
                self._cluster.let_go(asked.node)

    def _by_leader(self, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for topic, run in groupby(places, lambda place: place.topic):
            of_topic = list(run)
            try:
                leaders = self._cluster.leaders(topic, time.monotonic() + _CONNECT_S)
            except AnswerError as error:
                self._failures.record(of_topic, error)
                continue
            except (LostError, UnsupportedError) as error:
                self._failures.read.away = str(error)
                self._positions.rest_all()
                return found
            for place in of_topic:
                leader = leaders[place.partition] if place.partition < len(leaders) else -1
                if leader >= 0:
                    found[leader].append(place)
                else:
                    self._failures.look_again([place])
        return found

    def _ask_node(self, node: int, places: list[TopicPartition]) -> None:
        began_s = time.monotonic()
        try:
            connection = self._cluster.connection(node, began_s + _CONNECT_S)
            if connection.is_throttled:
                read = self._failures.read
                read.throttled_until_s = max(read.throttled_until_s, connection.throttled_until_s)
                return
            positions = {place: self._positions.at[place] for place in places}
            request = self._requests.request(positions)
            version, topics = self._requests.version(node, connection, request, places)
            asked = _Asked(node, connection, positions, topics, time.monotonic())
            connection.send(request, version, lambda answer: self._answered(asked, answer), began_s + self._answer_s)
            self._asked[node] = asked
        except AnswerError as error:
            self._failures.record(places, error)
        except (LostError, UnsupportedError) as error:
            self._lose(node, places, error, max(REST_S, 2 * (time.monotonic() - began_s)))

    def _lose(self, node: int, places: Iterable[TopicPartition], why: Exception, rest_s: float = REST_S) -> None:
        self._cluster.let_go(node)
        self._failures.read.away = None if self._asked else str(why)
        self._failures.look_again(places, rest_s)

    # answers

    def _take_answers(self, timeout_s: float) -> None:
        if not self._asked:
            time.sleep(min(timeout_s, REST_S))
            return
        of_connection = {asked.connection: asked for asked in self._asked.values()}
        answered = answering(list(of_connection), timeout_s)
        overdue = [connection for connection, asked in of_connection.items() if self._is_overdue(asked)]
        for connection in dict.fromkeys((*answered, *overdue)):
            asked = of_connection[connection]
            del self._asked[asked.node]
            try:
                if not self._is_taken(asked):
                    self._asked[asked.node] = asked
            except AnswerError as error:
                self._failures.record(list(asked.positions), error)
            except LostError as error:
                self._lose(asked.node, asked.positions, error)

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
                    self._failures.record([place], AnswerError(each.error_code, f"a fetch of {place.topic}"))
                elif each.diverging_epoch is not None:
                    common = LogPosition(each.diverging_epoch.end_offset, epoch=each.diverging_epoch.epoch)
                    self._failures.record_cut(place, common)
                elif each.preferred_read_replica >= 0:
                    self._requests.directing.add(asked.node)
                else:
                    self._take(place, asked.positions[place], each)

    def _take(self, place: TopicPartition, wanted: Position, answer: Any) -> None:
        self._positions.ends[place] = answer.high_watermark
        if answer.records:
            self._positions.hear(place)
        position = self._queue.add(place, answer, wanted)
        if position.offset > wanted.offset:
            self._positions.advance(place, position)
