"""Postgres by its own protocols: connections, logical replication (pgoutput), COPY, and what its catalogs say.

psycopg, which makes the connections, is an extra: `pip install 'fencepost[postgres]'`. It is imported when a connection
is made.
"""

from fencepost.postgres.catalog import Column, Table, TypeEntry, table, tables, types
from fencepost.postgres.connection import ConnectionSettings, connect, deadline
from fencepost.postgres.copy import copy_columns, copy_in, copy_rows
from fencepost.postgres.error import ConnectionLostError, PostgresError, ProtocolError, explain, is_retriable
from fencepost.postgres.lsn import format_lsn, parse_lsn
from fencepost.postgres.pgoutput import UNCHANGED, decode, decode_streamed
from fencepost.postgres.replication import KeepAlive, ReplicationStream
from fencepost.postgres.slots import ServerIdentity, SlotState, create_slot, drop_slot, server_identity, slot_state

__all__ = [
    "UNCHANGED",
    "Column",
    "ConnectionLostError",
    "ConnectionSettings",
    "KeepAlive",
    "PostgresError",
    "ProtocolError",
    "ReplicationStream",
    "ServerIdentity",
    "SlotState",
    "Table",
    "TypeEntry",
    "connect",
    "copy_columns",
    "copy_in",
    "copy_rows",
    "create_slot",
    "deadline",
    "decode",
    "decode_streamed",
    "drop_slot",
    "explain",
    "format_lsn",
    "is_retriable",
    "parse_lsn",
    "server_identity",
    "slot_state",
    "table",
    "tables",
    "types",
]
