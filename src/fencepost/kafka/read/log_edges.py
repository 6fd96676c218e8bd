"""Where logs begin and end, as a member of a group sees them."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

from confluent_kafka import KafkaException

from fencepost.kafka.read.member_client import MemberClient
from fencepost.record import TopicPartition, place_names

_ASK_S = 30.0


class LogEdges:
    """Asks the leaders of partitions. `in_client` is held while the client is used."""

    def __init__(self, client: MemberClient, in_client: AbstractContextManager[Any]) -> None:
        self._client = client
        self._in_client = in_client

    def __call__(self, places: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the offsets of the first record, and after the last one that this isolation level lets a reader see.

        Raises a failure as converted by `translate`.
        """
        with self._in_client:
            try:
                return {place: self._client.edges(place, _ASK_S) for place in sorted(places)}
            except KafkaException as error:
                raise self._client.failed(error, f"asking where {place_names(places)} begins and ends") from error
