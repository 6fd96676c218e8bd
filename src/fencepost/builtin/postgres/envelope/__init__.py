"""Records of a Postgres table as Debezium 3.6.1 writes them: settings, topics, schemas, keys, values, source blocks.

Core types: `PostgresSettings`, `TableFilter`, `TableShape` (one table's schemas, and its rows: text in, Connect values
out), `Events` (the records of each kind of change), `Position`; `TransactionRecords`, `OpenTransaction`, `Heartbeats`.
`SESSION` has the settings of Postgres sessions whose text is read. What differs from Debezium, and why: decision 0120.
"""

from fencepost.builtin.postgres.envelope.event import Events
from fencepost.builtin.postgres.envelope.record import Event
from fencepost.builtin.postgres.envelope.selection import TableFilter
from fencepost.builtin.postgres.envelope.settings import PostgresSettings
from fencepost.builtin.postgres.envelope.shape import SESSION, TableShape
from fencepost.builtin.postgres.envelope.source_block import Position
from fencepost.builtin.postgres.envelope.transaction import Heartbeats, OpenTransaction, TransactionRecords

__all__ = [
    "SESSION",
    "Event",
    "Events",
    "Heartbeats",
    "OpenTransaction",
    "Position",
    "PostgresSettings",
    "TableFilter",
    "TableShape",
    "TransactionRecords",
]
