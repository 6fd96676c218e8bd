"""Replication slots, and which server they belong to."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.postgres.connection import deadline
from fencepost.postgres.error import PostgresError
from fencepost.postgres.lsn import format_lsn, parse_lsn
from fencepost.postgres.name import literal, quoted

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

OLDEST_VERSION = 150_000
"""Of servers that this module knows how to ask, as in `ServerIdentity.version`."""

NOW = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
"""SQL: the end of the server's log; on a standby, of what it has replayed."""

_PLUGIN = "pgoutput"
_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")
_OLD_TRANSACTIONS = (
    "SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start"
)


class SlotError(PostgresError):
    """A slot cannot be used; the text names the next step."""


class SlotMissingError(SlotError):
    """There is no such slot on this server."""


class SlotLostError(SlotError):
    """The server has invalidated the slot: part of the log that it needed is gone."""


class SlotNotReadyError(SlotError):
    """The server is a standby, whose copy of the slot can be read once it is promoted."""

    is_retriable = True


class SlotInUseError(SlotError):
    """Another process reads the slot; perhaps the former reader, whose end the server has not noticed yet."""

    is_retriable = True


@dataclass(frozen=True)
class ServerIdentity:
    """Which server a position belongs to.

    A position is valid on a server of the same `system_identifier`. A failover to a standby keeps it, and raises
    `timeline`. `version` is a number such as 150008.
    """

    system_identifier: str
    timeline: int
    version: int


@dataclass(frozen=True)
class CreatedSlot:
    """A new slot sends all transactions that commit after `consistent_lsn`.

    `snapshot`, if it was asked for, shows exactly those before. It can be imported until the connection that created
    the slot carries out its next command, or ends.
    """

    name: str
    consistent_lsn: int
    snapshot: str | None


@dataclass(frozen=True)
class SlotState:
    """What the server says about a slot.

    `wal_status` is `reserved`, `extended`, `unreserved` (soon lost) or `lost`; `invalidation_reason` is that of servers
    from version 17 on. `retained_bytes` is how much log the server keeps for the slot, `lag_bytes` how much of it is
    not confirmed; `catalog_xmin_age` counts transactions. A slot that is `synced` was copied to a standby.
    """

    name: str
    plugin: str | None
    database: str | None
    active: bool
    active_pid: int | None
    confirmed_flush_lsn: int | None
    restart_lsn: int | None
    wal_status: str | None
    invalidation_reason: str | None
    retained_bytes: int | None
    lag_bytes: int | None
    catalog_xmin_age: int | None
    failover: bool
    synced: bool
    is_in_recovery: bool

    @property
    def is_lost(self) -> bool:
        return self.wal_status == "lost" or self.invalidation_reason is not None


def server_identity(connection: "Connection") -> ServerIdentity:
    """Ask which server this is. The connection is one for replication."""
    row = connection.execute("IDENTIFY_SYSTEM").fetchone()
    assert row is not None
    return ServerIdentity(str(row[0]), int(row[1]), connection.info.server_version)


def is_standby(connection: "Connection") -> bool:
    """Return whether the server replays the log of another one."""
    row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    return row is not None and bool(row[0])


def timeline_end(connection: "Connection", timeline: int) -> int:
    """Return where the server's history left an earlier timeline; 0 if that is none of its history.

    What was written on that timeline after it is not on this server. The connection is one for replication.
    """
    row = connection.execute("IDENTIFY_SYSTEM").fetchone()
    assert row is not None
    found = connection.execute(f"TIMELINE_HISTORY {int(row[1])}".encode()).fetchone() if int(row[1]) > 1 else None
    content = "" if found is None else found[1]
    text = content.decode() if isinstance(content, bytes) else str(content)
    ends = (line.split() for line in text.splitlines() if line[:1].isdigit())
    return next((parse_lsn(each[1]) for each in ends if int(each[0]) == timeline), 0)


def create_slot(
    connection: "Connection",
    name: str,
    *,
    export_snapshot: bool = False,
    failover: bool = False,
    temporary: bool = False,
    timeout_s: float = 300.0,
) -> CreatedSlot:
    """Create a slot for pgoutput.

    The server first waits for the transactions that have written and are open. A process that ends before this returns
    leaves no slot, or a complete one.

    Args:
        connection: One for replication. It must carry out nothing else while an exported snapshot is needed.
        name: Lower-case letters, digits and `_`.
        export_snapshot: Whether other connections import the snapshot of this position.
        failover: Whether standbys that synchronize slots copy it. Needs version 17.
        temporary: Whether the slot ends with the connection.
        timeout_s: How long to wait for open transactions.

    Raises:
        SlotError: The name is not one of a slot, or the server is too old for `failover`.
        ConnectionLostError: Transactions are open for longer; the text has a query that lists them.
        psycopg.Error: Such as DuplicateObject, or ConfigurationLimitExceeded.
    """
    if not _SLOT_NAME.fullmatch(name):
        raise SlotError(f"{name!r} cannot be the name of a slot: use up to 63 lower-case letters, digits and _")
    options = ["SNAPSHOT 'export'" if export_snapshot else "SNAPSHOT 'nothing'"]
    if failover:
        _ensure_failover(connection, name)
        options.append("FAILOVER true")
    kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
    command = f"CREATE_REPLICATION_SLOT {quoted(name)} {kind} {_PLUGIN} ({', '.join(options)})"
    doing = f"creating the slot {name} (it waits for open transactions; to list them: {_OLD_TRANSACTIONS})"
    with deadline(connection, timeout_s, doing):
        row = connection.execute(command.encode()).fetchone()
    assert row is not None
    return CreatedSlot(name, parse_lsn(row[1]), row[2] or None)


def mark_for_failover(connection: "Connection", name: str) -> None:
    """Let standbys that synchronize slots copy a slot that exists, and is not read. The connection is for replication.

    Raises:
        SlotError: The server is older than version 17.
    """
    _ensure_failover(connection, name)
    connection.execute(f"ALTER_REPLICATION_SLOT {quoted(name)} (FAILOVER true)".encode())


def _ensure_failover(connection: "Connection", name: str) -> None:
    version = connection.info.server_version
    if version < 170_000:
        raise SlotError(f"slot {name}: failover slots need Postgres 17, and the server is {version // 10_000}")


def drop_slot(connection: "Connection", name: str, only: SlotState | None = None) -> None:
    """Drop a slot. One that does not exist is ignored. Raises psycopg.errors.ObjectInUse.

    With `only`, another slot of that name is ignored, too: one at other positions than these.
    """
    query = f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = {literal(name)}"
    if only is not None:
        query += f" AND restart_lsn IS NOT DISTINCT FROM {_literal_lsn(only.restart_lsn)}"
        query += f" AND confirmed_flush_lsn IS NOT DISTINCT FROM {_literal_lsn(only.confirmed_flush_lsn)}"
    connection.execute(query.encode())


def slot_state(connection: "Connection", name: str) -> SlotState | None:
    """Return what the server says about a slot; None if it has none of that name."""
    row = connection.execute(
        f"""
        SELECT to_jsonb(s), pg_wal_lsn_diff({NOW}, restart_lsn)::bigint,
               pg_wal_lsn_diff({NOW}, confirmed_flush_lsn)::bigint, age(catalog_xmin), pg_is_in_recovery()
        FROM pg_replication_slots s WHERE slot_name = {literal(name)}
        """.encode()
    ).fetchone()
    if row is None:
        return None
    found, retained, lag, xmin_age, is_in_recovery = row
    return SlotState(
        name=name,
        plugin=found["plugin"],
        database=found["database"],
        active=found["active"],
        active_pid=found["active_pid"],
        confirmed_flush_lsn=_lsn(found["confirmed_flush_lsn"]),
        restart_lsn=_lsn(found["restart_lsn"]),
        wal_status=found["wal_status"],
        invalidation_reason=found.get("invalidation_reason") or ("conflicting" if found.get("conflicting") else None),
        retained_bytes=retained,
        lag_bytes=lag,
        catalog_xmin_age=xmin_age,
        failover=found.get("failover", False),
        synced=found.get("synced", False),
        is_in_recovery=is_in_recovery,
    )


def ensure_usable(connection: "Connection", name: str) -> SlotState:
    """Return the state of a slot that a stream can be read from now. Raises SlotError, by kind."""
    state = slot_state(connection, name)
    if state is None:
        raise SlotMissingError(
            f"the slot {name} does not exist on {_where(connection)}: it was dropped, this is another server, or a "
            "standby that had no copy of it was promoted (slot.failover). What was committed since its last position "
            "is in no slot: create it, and take a new snapshot"
        )
    if state.plugin != _PLUGIN or state.database != connection.info.dbname:
        raise SlotError(
            f"the slot {name} is of the plug-in {state.plugin} and the database {state.database}, not of {_PLUGIN} and "
            f"{connection.info.dbname}: give another name, or drop it: SELECT pg_drop_replication_slot({literal(name)})"
        )
    if state.is_lost:
        reason = state.invalidation_reason or "wal_removed: it was further behind than max_slot_wal_keep_size allows"
        raise SlotLostError(
            f"the server has invalidated the slot {name} ({reason}), and no longer has the log that it needs. Drop it, "
            f"and take a new snapshot: SELECT pg_drop_replication_slot({literal(name)})"
        )
    if state.synced and state.is_in_recovery:
        raise SlotNotReadyError(
            f"the slot {name} is a copy of the primary's, and can be read once {_where(connection)} is promoted: "
            "connect to the primary"
        )
    if state.active:
        raise SlotInUseError(
            f"the slot {name} is in use by {_reader(connection, state)}: stop it, or end its connection: "
            f"SELECT pg_terminate_backend({state.active_pid})"
        )
    return state


def _reader(connection: "Connection", state: SlotState) -> str:
    row = connection.execute(
        "SELECT usename, application_name, client_addr::text, backend_start::text FROM pg_stat_activity "
        f"WHERE pid = {state.active_pid or 0}".encode()
    ).fetchone()
    if row is None:
        return f"process {state.active_pid}"
    return f"process {state.active_pid} ({row[1] or 'unnamed'} of {row[0]} at {row[2] or 'the server'} since {row[3]})"


def _where(connection: "Connection") -> str:
    return f"{connection.info.host}:{connection.info.port}"


def _literal_lsn(lsn: int | None) -> str:
    return "NULL" if lsn is None else f"{literal(format_lsn(lsn))}::pg_lsn"


def _lsn(text: str | None) -> int | None:
    return None if text is None else parse_lsn(text)
