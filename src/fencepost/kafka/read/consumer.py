"""What all readers do with librdkafka's consumer, and commits to a group of which the committing client is no
member.
"""

import contextlib
import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.errors import is_unavailable, translate
from fencepost.kafka.value.position import GroupOffset
from fencepost.kafka.wire.library_client import close_consumer, library_log, new_client
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


class OffsetCommitter:
    """Commits with a librdkafka client, which is created when it is needed. For any thread, except `serve`."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        self._conf = conf
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._consumer: Any = None
        self._is_closed = False
        self._in_use = threading.Lock()
        self._unheard = 0  # commits without an answer
        self.error: str | None = None
        """Why the last answered commit was refused; None if it succeeded or none was answered."""

    def client(self) -> Any:
        """Return the client. Raises KafkaRequestError for settings that it refuses."""
        if self._consumer is None:
            conf = {**self._conf, "on_commit": self._heard}
            self._consumer = new_client(Consumer, conf, logger=library_log(__name__))
        return self._consumer

    def commit(self, offsets: Collection[GroupOffset]) -> None:
        """Commit, without waiting for the outcome. Does nothing once this is closed."""
        asked = [ClientPartition(*offset) for offset in offsets]
        with self._in_use:
            if asked and not self._is_closed:
                try:
                    self.client().commit(offsets=asked, asynchronous=True)
                except KafkaException as error:
                    raise translate(error, "committing offsets", self._bootstrap) from error
                self._unheard += 1

    def serve(self) -> None:
        """Process the answers to commits, if the client is not used to read."""
        if self._consumer is not None:
            with contextlib.suppress(KafkaException):
                self._consumer.consume(1, 0)

    def close(self) -> None:
        """Close the client. Idempotent."""
        with self._in_use:
            consumer, self._consumer, self._is_closed = self._consumer, None, True
        if consumer is None:
            return
        if self._unheard:  # the client waits for the answer, almost a minute if no broker responds
            threading.Thread(target=close_consumer, args=(consumer,), name="close reader", daemon=True).start()
        else:
            close_consumer(consumer)

    def _heard(self, error: Any, places: Sequence[Any]) -> None:
        with self._in_use:
            self._unheard -= 1
        refused = [place.error for place in places if place.error is not None]
        first = error or next(iter(refused), None)
        self.error = None if first is None else f"{first.str()} ({first.name()})"
