"""What all readers do with librdkafka's consumer."""

import contextlib
import logging
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from fencepost.kafka.errors import is_unavailable
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

UNKNOWN_PARTITION = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
"""Codes of a partition that does not exist, or that the client or a broker does not know yet."""
_PASSING = UNKNOWN_PARTITION | {KafkaError.UNKNOWN}  # the last is a fault of a broker's, as of tiered storage


def is_passing(error: Any, *, has_group: bool = True) -> bool:
    """Return whether the client can continue to read after this error. A fault of a broker's is logged.

    Without a group, this includes a missing permission for the one that the client must name.
    """
    if error.code() == KafkaError.UNKNOWN:
        log.warning("a broker failed to read a log, and is asked again: %s", error.str())
    codes = _PASSING if has_group else _PASSING | {KafkaError.GROUP_AUTHORIZATION_FAILED}
    return is_unavailable(error) or error.code() in codes


def obstacle_of(error: Any) -> str:
    """Return what a passing error says about why nothing is read."""
    if error.code() == KafkaError.UNKNOWN:
        return f"a broker failed: {error.str()}"
    return f"the broker cannot be reached ({error.str()})"


def place_of(message: Any) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())


def close_consumer(consumer: Any) -> None:
    """Close a consumer, whatever state it is in."""
    with contextlib.suppress(KafkaException, RuntimeError):
        consumer.close()
