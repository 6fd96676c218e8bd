"""Commits offsets to a group of which the committing client is no member."""

import contextlib
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.kafka.errors import translate
from fencepost.kafka.library_log import library_log
from fencepost.kafka.read.consumer import close_consumer
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.wire.library_client import new_client


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
