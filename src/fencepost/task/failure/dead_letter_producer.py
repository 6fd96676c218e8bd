"""Records that could not be processed, on their way to the dead letter topic (KIP-298, KIP-610).

Key, value and headers are written as they were read, but for headers that only Fencepost may write. They are
acknowledged before any offset goes past them.
"""

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from fencepost.api import FatalError, RetriableError, SinkRecord
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.produce.transactional_client import Failure, ProducerError
from fencepost.record import HeaderBytes
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.failure.dead_letter import context_headers, header_choices, origin_of
from fencepost.task.failure.tolerance import ErrorCounters

log = logging.getLogger(__name__)

_SERVE_S = 0.1


class DeadLetters:
    """The producer for the dead letters of one task, whose topic exists. For the task's thread.

    A separate thread handles acknowledgements, so that the task can wait for one.
    """

    def __init__(self, spec: TaskSpec, counters: ErrorCounters) -> None:
        self._spec = spec
        self._counters = counters
        self._client = LibrdkafkaProducer({**spec.output.producer_conf, "delivery.report.only.error": False})
        self._is_open = False
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"dead-letters-{spec.id}", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._is_closed.wait(0 if self._is_open else _SERVE_S):
            if self._is_open:
                self._client.serve(_SERVE_S)

    def add(self, record: SinkRecord, stage: str, class_name: str, error: Exception) -> "Future[None]":
        """Send a record whose key, value and headers are bytes. The future is done once it is acknowledged."""
        safe: Future[None] = Future()
        given = [(header.key, header.value) for header in record.headers]
        context = []
        if self._spec.dead_letters.headers:
            context = context_headers(self._spec, origin_of(record), stage, class_name, error)
        choices = header_choices(self._spec, record, given, context)
        self._counters.dead_letters += 1

        def delivered(refused: Any, _: Any) -> None:
            if refused is None:
                safe.set_result(None)
            else:
                self._counters.dead_letter_failures += 1
                safe.set_exception(RetriableError(f"the broker refused a dead letter: {refused.str()}"))

        self._is_open = True
        fields: dict[str, Any] = {"key": record.key, "on_delivery": delivered}
        try:
            self._produce(record.value, choices, fields)
        except ProducerError as refusal:
            self._counters.dead_letter_failures += 1
            raise self._error(refusal) from refusal
        return safe

    def _produce(self, value: bytes | None, choices: list[list[HeaderBytes]], fields: Mapping[str, Any]) -> None:
        """Send with the first of these lists of headers with which the record is not too large."""
        topic, (headers, *fewer) = self._spec.dead_letters.topic, choices
        try:
            self._client.produce(topic, value, headers=headers, **fields)
        except ProducerError as refusal:
            if refusal.failure is not Failure.REFUSED_RECORD or not fewer:
                raise
            self._produce(value, fewer, fields)

    def settle(self, timeout_s: float) -> bool:
        """Return whether all added records are safe. Raises RetriableError or FatalError if one was refused."""
        if not self._is_open:
            return True
        try:
            self._client.flush(timeout_s)
        except ProducerError as error:
            if error.failure is Failure.PASSING and self._client.failed_delivery is None:
                log.warning("task %s: dead letters are not acknowledged yet: %s", self._spec.id, error)
                return False
            raise self._error(error) from error
        self._is_open = False
        return True

    def close(self) -> None:
        """Close the producer, without waiting for records that are not safe yet. Idempotent."""
        self._is_closed.set()
        self._thread.join()
        self._client.drop()

    def _error(self, error: ProducerError) -> Exception:
        kind = RetriableError if error.failure is Failure.PASSING else FatalError
        return kind(f"errors.deadletterqueue.topic.name={self._spec.dead_letters.topic}: {error}")
