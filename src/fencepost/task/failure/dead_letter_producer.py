"""Records that could not be processed, on their way to the dead letter topic (KIP-298, KIP-610).

Those of sinks are acknowledged before any offset goes past them. Those of sources and streams are written in the task's
own transaction, with the offsets that go past them (E15). Key, value and headers are written as they were read, but for
headers that only Fencepost may write. Records polled from a source have no original bytes: values that are no bytes are
written as JSON as far as JSON can express them.
"""

import base64
import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from fencepost.api import FatalError, RetriableError, SinkRecord, SourceRecord
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.produce.transactional_client import Failure, ProducerError
from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.record import HeaderBytes, Repeated
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.task.failure.dead_letter import (
    OFFSET,
    PARTITION,
    TOPIC,
    context_headers,
    header_choices,
    origin_of,
)
from fencepost.task.failure.tolerance import ErrorCounters

_FRAME_BYTES = 1_000  # more than a record needs in addition to its contents
_NOT_YET = -1


@dataclass(slots=True)
class _Failed:
    record: SourceRecord | SinkRecord
    stage: str
    error: Exception
    index: int = _NOT_YET


@dataclass
class TransactionDeadLetters:
    """The records of one batch that could not be processed. Belongs to one task and one thread; sends nothing.

    `class_of` names the class whose code failed in a stage.
    """

    spec: TaskSpec
    class_of: Callable[[str, Exception], str]
    _failed: list[_Failed] = field(default_factory=list)

    def tell(self, stage: str, error: Exception, record: SourceRecord | SinkRecord) -> None:
        """Keep a failed record as it was polled or read."""
        self._failed.append(_Failed(record, stage, error))

    def at(self, index: int) -> None:
        """Set the index in the batch of the record that `tell` kept last, unless it has one."""
        if self._failed and self._failed[-1].index == _NOT_YET:
            self._failed[-1].index = index

    def clear(self) -> None:
        """Forget the failures of an unfinished batch, which will be polled again."""
        self._failed = []

    def take(self) -> OutgoingColumns | None:
        """Return the dead letters, with their indexes in the batch as `sources`, or None."""
        failed, self._failed = sorted(self._failed, key=lambda one: one.index), []
        if not failed:
            return None
        letters = [self._letter(one) for one in failed]
        return OutgoingColumns(
            topics=Repeated(self.spec.dead_letters.topic, len(letters)),
            values=[value for _, value, _ in letters],
            keys=[key for key, _, _ in letters],
            headers=[headers for _, _, headers in letters],
            sources=[one.index for one in failed],
            is_dead_letters=True,
        )

    def _letter(self, failed: _Failed) -> tuple[bytes | None, bytes | None, list[HeaderBytes]]:
        record = failed.record
        key, value = to_bytes_for_dlq(record.key), to_bytes_for_dlq(record.value)
        given = [(header.key, to_bytes_for_dlq(header.value)) for header in record.headers]
        context = []
        if self.spec.dead_letters.headers:
            class_name = self.class_of(failed.stage, failed.error)
            context = context_headers(self.spec, _origin(record), failed.stage, class_name, failed.error)
        *fuller, least = header_choices(self.spec, record, given, context)
        # If a fuller choice is too large for the producer, the record alone may still fit.
        room = most_record_bytes(self.spec.output.producer_conf) - _FRAME_BYTES - len(key or b"") - len(value or b"")
        return key, value, next((choice for choice in fuller if _size(choice) <= room), least)


def _size(headers: list[HeaderBytes]) -> int:
    return sum(len(name.encode()) + len(data or b"") for name, data in headers)


def _origin(record: SourceRecord | SinkRecord) -> dict[str, Any]:
    if isinstance(record, SinkRecord):
        return origin_of(record)
    return {
        TOPIC: record.topic,
        PARTITION: (to_bytes_for_dlq(dict(record.source_partition)) or b"").decode(),
        OFFSET: "" if record.source_offset is None else (to_bytes_for_dlq(dict(record.source_offset)) or b"").decode(),
    }


def to_bytes_for_dlq(value: Any) -> bytes | None:
    """Return a value as a dead letter holds it: bytes unchanged, None as None, anything else as JSON where possible.

    Within JSON, bytes are base64, and values that JSON cannot express are their Python text. Never raises: a record
    that cannot be written down must not fail its task.
    """
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    for write in (partial(orjson.dumps, default=_plain, option=orjson.OPT_NON_STR_KEYS), _thoroughly):
        try:
            return write(value)
        except Exception:  # integers of more than 64 bits, lone surrogates, cycles, a broken __repr__
            continue
    return orjson.dumps(f"<{type(value).__qualname__}>")


def _thoroughly(value: Any) -> bytes:
    try:
        return json.dumps(value, default=_plain).encode()
    except (TypeError, ValueError):
        return json.dumps(repr(value)).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


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
