"""Records about transactions (`provide.transaction.metadata`), the order of changes in them, and heartbeats."""

from dataclasses import replace
from typing import Any

from fencepost.api import INT64, STRING, Schema
from fencepost.builtin.postgres.envelope import name
from fencepost.builtin.postgres.envelope.record import Event
from fencepost.builtin.postgres.envelope.settings import PostgresSettings
from fencepost.builtin.postgres.envelope.source_block import Position


def _schema(settings: PostgresSettings, last: str, fields: dict[str, Schema]) -> Schema:
    full_name = name.schema_name(settings, f"io.debezium.connector.common.{last}")
    return replace(Schema.struct(fields, name=full_name), version=1)


_COLLECTION = replace(
    Schema.struct({"data_collection": STRING, "event_count": INT64}, name="event.collection", is_optional=True),
    version=1,
)


class OpenTransaction:
    """Counts the changes of a database transaction."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._total = 0

    def block(self, schema: str, table: str, position: Position) -> dict[str, Any]:
        """Count a change, and return its block `transaction`."""
        full_name = f"{schema}.{table}"
        self._total += 1
        self.counts[full_name] = self.counts.get(full_name, 0) + 1
        return {
            "id": _id(position),
            "total_order": self._total,
            "data_collection_order": self.counts[full_name],
        }


class TransactionRecords:
    """Makes the records of a connector's topic of transactions. Debezium's ids have the position of each message."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._topic = name.transaction_topic(settings)
        self._key_schema = _schema(settings, "TransactionMetadataKey", {"id": STRING})
        fields = {
            "status": STRING,
            "id": STRING,
            "event_count": INT64.optional(),
            "data_collections": Schema.array(_COLLECTION).optional(),
            "ts_ms": INT64,
        }
        self._value_schema = _schema(settings, "TransactionMetadataValue", fields)

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


class Heartbeats:
    """Makes a connector's heartbeats."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._topic = name.heartbeat_topic(settings)
        self._key = {"serverName": settings.topic_prefix}
        self._key_schema = _schema(settings, "ServerNameKey", {"serverName": STRING})
        self._value_schema = _schema(settings, "Heartbeat", {"ts_ms": INT64})

    def beat(self, now_ms: int) -> Event:
        """Return a heartbeat of a time, in milliseconds since 1970."""
        return Event(self._topic, self._key_schema, self._key, self._value_schema, {"ts_ms": now_ms})


def _id(position: Position) -> str:
    return f"{position.transaction}:{position.lsn}"
