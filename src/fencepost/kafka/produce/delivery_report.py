"""Delivery reports of the batch client: its callbacks get an error and a message, as librdkafka's callbacks do."""

from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from fencepost.kafka.codec.columns import Content
from fencepost.record import TopicPartition


class DeliveredMessage(NamedTuple):
    """A written record, with those methods of confluent-kafka's `Message` that return its position."""

    place: TopicPartition
    at: int
    append_time_ms: int
    create_time_ms: int

    def topic(self) -> str:
        return self.place.topic

    def partition(self) -> int:
        return self.place.partition

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of the timestamp, and milliseconds since 1970."""
        if self.append_time_ms >= 0:
            return TIMESTAMP_LOG_APPEND_TIME, self.append_time_ms
        return TIMESTAMP_CREATE_TIME, self.create_time_ms


def report_delivered(place: TopicPartition, columns: Content, base_offset: int, append_time_ms: int) -> None:
    """Call the callbacks of a batch that is in the log. Exceptions of a callback propagate to the caller."""
    for index, call in columns.callbacks.items():
        delivered: Any = DeliveredMessage(place, base_offset + index, append_time_ms, columns.timestamp(index))
        call(None, delivered)
