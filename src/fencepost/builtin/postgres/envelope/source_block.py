"""Where a change comes from: the block `source` of records, and the block of its transaction."""

from dataclasses import dataclass, replace
from typing import Any

from fencepost.api import INT64, STRING, Schema
from fencepost.builtin.postgres.envelope.settings import PostgresSettings

VERSION = "3.6.1.Final"
"""Debezium's, whose records these are."""
SNAPSHOT_MARKS = (
    "true",
    "first",
    "first_in_data_collection",
    "last_in_data_collection",
    "last",
    "false",
    "incremental",
)

_SNAPSHOT = replace(
    STRING.optional(),
    name="io.debezium.data.Enum",
    version=1,
    parameters=(("allowed", ",".join(SNAPSHOT_MARKS)),),
    default="false",
)
SOURCE = replace(
    Schema.struct(
        {
            **dict.fromkeys(("version", "connector", "name"), STRING),
            "ts_ms": INT64,
            "snapshot": _SNAPSHOT,
            "db": STRING,
            "sequence": STRING.optional(),
            **dict.fromkeys(("ts_us", "ts_ns"), INT64.optional()),
            **dict.fromkeys(("schema", "table"), STRING),
            **dict.fromkeys(("txId", "lsn", "xmin"), INT64.optional()),
            "origin": STRING.optional(),
            "origin_lsn": INT64.optional(),
        },
        name="io.debezium.connector.postgresql.Source",
    ),
    version=1,
)
TRANSACTION = replace(
    Schema.struct(
        {"id": STRING, "total_order": INT64, "data_collection_order": INT64}, name="event.block", is_optional=True
    ),
    version=1,
)


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the log a change is, and when its transaction was committed: the same for all rows of a snapshot.

    `lsn` is where the message of the change starts in the log (`wal_start`), `last_commit_lsn` the same of the COMMIT
    that came before (None in a snapshot, and in the first transaction after it), `transaction` the
    transaction's id, and `time_us` the time of its commit, in microseconds since 1970.
    """

    lsn: int
    last_commit_lsn: int | None
    transaction: int | None
    time_us: int
    origin: str | None = None
    origin_lsn: int | None = None


class SourceBlock:
    """Makes the blocks `source` of one connector."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._start = {"version": VERSION, "connector": "postgresql", "name": settings.topic_prefix}
        self._database = settings.dbname

    def __call__(self, schema: str, table: str, position: Position) -> dict[str, Any]:
        """Return the block of a change of a table. In that of a row of a snapshot, put one of SNAPSHOT_MARKS."""
        last = position.last_commit_lsn
        return {
            **self._start,
            "ts_ms": position.time_us // 1000,
            "snapshot": "false",
            "db": self._database,
            "sequence": f'[null,"{position.lsn}"]' if last is None else f'["{last}","{position.lsn}"]',
            "ts_us": position.time_us,
            "ts_ns": position.time_us * 1000,
            "schema": schema,
            "table": table,
            "txId": position.transaction,
            "lsn": position.lsn,
            "xmin": None,
            "origin": position.origin,
            "origin_lsn": position.origin_lsn,
        }
