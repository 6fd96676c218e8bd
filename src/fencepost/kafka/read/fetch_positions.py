"""The positions from which partitions are fetched next, and what errors of brokers mean for them."""

import logging
import time
from collections.abc import Collection, Iterable

from confluent_kafka import KafkaError

from fencepost.kafka.codec.committed import Position
from fencepost.kafka.codec.encode_header import CorruptBatchError
from fencepost.kafka.errors import NOT_AUTHENTICATED, KafkaAuthorizationError, translate
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.kafka.wire.cluster import Cluster
from fencepost.kafka.wire.errors import AnswerError
from fencepost.kafka.wire.experience import QUIET_S
from fencepost.record import TopicPartition, place_names

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
