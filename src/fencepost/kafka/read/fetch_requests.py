"""Makes the requests with which brokers are asked for whole batches."""

from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any
from uuid import UUID

from fencepost.kafka.codec.committed import Position
from fencepost.kafka.setting.batch_settings import FetchSettings
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.kafka.wire.cluster import Cluster, known_id, text_of_id
from fencepost.kafka.wire.connection import Connection
from fencepost.kafka.wire.errors import UnsupportedError
from fencepost.record import TopicPartition

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
