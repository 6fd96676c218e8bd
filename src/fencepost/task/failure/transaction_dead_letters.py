"""Dead letters that are written in the task's own transaction, with the offsets that go past them (E15).

Key, value and header values that are bytes are written unchanged; those of a record read from a topic always are. Other
values are written as JSON as far as JSON can express them: records polled from a source have no original bytes.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from fencepost.api import SinkRecord, SourceRecord
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
        """Return the dead letters, with their indexes in the batch as `sources`; None if there are none."""
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
