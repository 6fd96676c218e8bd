"""The positions from which partitions are fetched next, the requests for them, and the meaning of brokers' errors."""

import logging
import time
from base64 import urlsafe_b64decode
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any
from uuid import UUID

from confluent_kafka import KafkaError

from fencepost.kafka.codec.committed import Position
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.errors import NOT_AUTHENTICATED, KafkaAuthorizationError, translate
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.setting.batch_settings import FetchSettings
from fencepost.kafka.value.position import LogPosition
from fencepost.kafka.wire.cluster import Cluster, known_id, text_of_id
from fencepost.kafka.wire.connection import Connection
from fencepost.kafka.wire.errors import AnswerError, UnsupportedError
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
