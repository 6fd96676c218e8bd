"""Records about transactions (`provide.transaction.metadata`), of messages in the log, and heartbeats."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fencepost.api import BYTES, INT64, STRING, Schema
from fencepost.builtin.postgres.envelope import name
from fencepost.builtin.postgres.envelope.number import binary
from fencepost.builtin.postgres.envelope.record import Event
from fencepost.builtin.postgres.envelope.selection import message_filter
from fencepost.builtin.postgres.envelope.settings import PostgresSettings
from fencepost.builtin.postgres.envelope.source_block import SOURCE, TRANSACTION, Position, SourceBlock
from fencepost.postgres.pgoutput import Message


def struct(settings: PostgresSettings, last: str, fields: dict[str, Schema]) -> Schema:
    """Return the schema of a struct that is no table's; `last` is the last part of its name."""
    full_name = name.schema_name(settings, f"io.debezium.connector.{last}")
    return replace(Schema.struct(fields, name=full_name), version=1)


_COLLECTION = replace(
    Schema.struct({"data_collection": STRING, "event_count": INT64}, name="event.collection", is_optional=True),
    version=1,
)
_OF_MESSAGES = "LOGICAL_DECODING_MESSAGE"
"""The name under which a transaction counts its messages."""


class OpenTransaction:
    """Counts the changes of a database transaction."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._total = 0

    def block(self, collection: str, position: Position) -> dict[str, Any]:
        """Count a change of a table, or a message, and return its block `transaction`."""
        self._total += 1
        self.counts[collection] = self.counts.get(collection, 0) + 1
        return {
            "id": _id(position),
            "total_order": self._total,
            "data_collection_order": self.counts[collection],
        }


class TransactionRecords:
    """Makes the records of a connector's topic of transactions. Debezium's ids have the position of each message."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._topic = name.transaction_topic(settings)
        self._key_schema = struct(settings, "common.TransactionMetadataKey", {"id": STRING})
        fields = {
            "status": STRING,
            "id": STRING,
            "event_count": INT64.optional(),
            "data_collections": Schema.array(_COLLECTION).optional(),
            "ts_ms": INT64,
        }
        self._value_schema = struct(settings, "common.TransactionMetadataValue", fields)

    def begin(self, position: Position) -> Event:
        """Return the record of a BEGIN, whose message is at `position`."""
        return self._record("BEGIN", position, None)

    def end(self, position: Position, counted: OpenTransaction) -> Event:
        """Return the record of a COMMIT, whose message is at `position`."""
        return self._record("END", position, counted.counts)

    def _record(self, status: str, position: Position, counts: dict[str, int] | None) -> Event:
        collections = [{"data_collection": one, "event_count": count} for one, count in (counts or {}).items()]
        value = {
            "status": status,
            "id": _id(position),
            "event_count": None if counts is None else sum(counts.values()),
            "data_collections": None if counts is None else collections,
            "ts_ms": position.time_us // 1000,
        }
        return Event(self._topic, self._key_schema, {"id": value["id"]}, self._value_schema, value)


class Messages:
    """Makes the records of what `pg_logical_emit_message` has written. They have fewer times than those of changes."""

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
            "transaction": None if transaction is None else transaction.block(_OF_MESSAGES, position),
            "message": {"prefix": message.prefix, "content": self._written(message.content)},
        }
        yield Event(self._topic, self._key_schema, {"prefix": message.prefix}, self._value_schema, value)


class Heartbeats:
    """Makes a connector's heartbeats."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._topic = name.heartbeat_topic(settings)
        self._key = {"serverName": settings.topic_prefix}
        self._key_schema = struct(settings, "common.ServerNameKey", {"serverName": STRING})
        self._value_schema = struct(settings, "common.Heartbeat", {"ts_ms": INT64})

    def beat(self, now_ms: int) -> Event:
        """Return a heartbeat of a time, in milliseconds since 1970."""
        return Event(self._topic, self._key_schema, self._key, self._value_schema, {"ts_ms": now_ms})


def _id(position: Position) -> str:
    return f"{position.transaction}:{position.lsn}"
