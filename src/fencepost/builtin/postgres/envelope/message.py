"""Records of what `pg_logical_emit_message` has written to the log."""

from collections.abc import Callable, Iterator
from typing import Any

from fencepost.api import BYTES, INT64, STRING
from fencepost.builtin.postgres.envelope import name
from fencepost.builtin.postgres.envelope.number import binary
from fencepost.builtin.postgres.envelope.record import Event
from fencepost.builtin.postgres.envelope.selection import message_filter
from fencepost.builtin.postgres.envelope.settings import PostgresSettings
from fencepost.builtin.postgres.envelope.source_block import SOURCE, TRANSACTION, Position, SourceBlock
from fencepost.builtin.postgres.envelope.transaction import OpenTransaction, struct
from fencepost.postgres.pgoutput import Message

_COLLECTION = "LOGICAL_DECODING_MESSAGE"
"""The name under which a transaction counts its messages."""


class Messages:
    """Makes the records of a connector's topic of messages. They have fewer times than those of changes."""

    def __init__(self, settings: PostgresSettings, source: SourceBlock, now_us: Callable[[], int]) -> None:
        self._source, self._now_us = source, now_us
        self._is_captured = message_filter(settings)
        self._topic = name.message_topic(settings)
        mode = settings.binary_handling_mode.lower()
        self._written: Callable[[bytes], Any] = binary(mode)
        content = {"prefix": STRING.optional(), "content": (BYTES if mode == "bytes" else STRING).optional()}
        self._key_schema = struct(settings, "postgresql.MessageKey", {"prefix": STRING.optional()})
        fields = {
            "op": STRING,
            "ts_ms": INT64.optional(),
            "source": SOURCE,
            "transaction": TRANSACTION,
            "message": struct(settings, "postgresql.Message", content),
        }
        self._value_schema = struct(settings, "postgresql.MessageValue", fields)

    def records(
        self, message: Message, position: Position, transaction: OpenTransaction | None = None
    ) -> Iterator[Event]:
        """Yield the record of a message, if its prefix is captured. `transaction` counts it, if it is in one."""
        if not self._is_captured(message.prefix):
            return
        value = {
            "op": "m",
            "ts_ms": self._now_us() // 1000,
            "source": self._source("", "", position),
            "transaction": None if transaction is None else transaction.block(_COLLECTION, position),
            "message": {"prefix": message.prefix, "content": self._written(message.content)},
        }
        yield Event(self._topic, self._key_schema, {"prefix": message.prefix}, self._value_schema, value)
