"""Where a change comes from: the block `source` of records, and the block of its transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fencepost.api import INT64, STRING, ArrowColumn, Repeated, Schema
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
        return {
            **self._start,
            "ts_ms": position.time_us // 1000,
            "snapshot": "false",
            "db": self._database,
            "sequence": _sequence(position),
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

    def columns(self, schema: str, table: str, positions: Sequence[Position]) -> dict[str, Sequence[Any]]:
        """Return the blocks of changes of a table, none of which has an origin, as columns."""
        blocks = {name: Repeated(value, len(positions)) for name, value in self(schema, table, positions[0]).items()}
        times = [each.time_us for each in positions]
        return {
            **blocks,
            "ts_ms": _numbers([time // 1000 for time in times]),
            "sequence": [_sequence(each) for each in positions],
            "ts_us": _numbers(times),
            "ts_ns": _numbers([time * 1000 for time in times]),
            "txId": _numbers([each.transaction for each in positions]),
            "lsn": _numbers([each.lsn for each in positions]),
        }


def _sequence(position: Position) -> str:
    last = position.last_commit_lsn
    return f'[null,"{position.lsn}"]' if last is None else f'["{last}","{position.lsn}"]'


def _numbers(values: list[Any]) -> ArrowColumn:
    import pyarrow as pa

    return ArrowColumn(pa.array(values, pa.int64()))
