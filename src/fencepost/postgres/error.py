"""Errors of Postgres: which are worth a retry, and what a reader should do about the others."""

import re

_RETRIABLE_CLASSES = frozenset({"08", "53", "58"})  # connections, resources (a full disk, too), the server's own files
_RETRIABLE = frozenset(
    {
        "25006",  # read-only: the primary before a failover
        "25P03",  # idle for too long within a transaction
        "40001",  # could not serialize, or a conflict with the recovery of a standby
        "40P01",  # deadlock
        "55006",  # in use: a slot whose former reader the server has not missed yet
        "55P03",  # lock not available
        "57014",  # cancelled, by a time-out or by a person
        "57P01",  # shut down
        "57P02",  # crashed
        "57P03",  # not ready yet
        "57P05",  # idle for too long
    }
)

# While a connection is made, libpq gives a text and no code.
_REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|does not exist|not permitted|certificate"
    r"|does not support SSL|permission denied|must be superuser|unsupported|invalid|private key|not supported"
)

_NEXT_STEPS = (
    (r"wal_level", "set `wal_level = logical` in the server's configuration, and restart the server"),
    (
        r"replication slots are in use",
        "drop slots that have no reader (SELECT slot_name FROM pg_replication_slots WHERE NOT active), or raise "
        "`max_replication_slots` and restart the server",
    ),
    (
        r"max_wal_senders|standby connections",
        "end other readers (SELECT * FROM pg_stat_replication), or raise `max_wal_senders` and restart the server",
    ),
    (
        r"replication slot .* is active for PID (?P<pid>\d+)",
        "stop the other reader, or end its connection: SELECT pg_terminate_backend({pid})",
    ),
    (
        r"replication slot .* does not exist",
        "what was committed since its last position may be missing: create it, and take a new snapshot",
    ),
    (
        r"can no longer (get changes from|access) replication slot|invalidated",
        "drop it (SELECT pg_drop_replication_slot(slot)), and take a new snapshot",
    ),
    (r"publication .* does not exist", "create it: CREATE PUBLICATION name FOR TABLE ..."),
    (
        r"permission denied to (use replication slots|start WAL sender)|must be superuser or replication role",
        "give the user the right: ALTER ROLE name REPLICATION",
    ),
    (
        r"no pg_hba\.conf entry for replication|no pg_hba\.conf entry",
        "allow the user, this address and the use of TLS in the server's pg_hba.conf",
    ),
    (r"authentication failed|no password supplied", "check the user and the password"),
    (r"too many (clients|connections)|connection slots", "close other connections, or raise `max_connections`"),
)


class PostgresError(Exception):
    """Something failed for a reason that this module knows; the text names the next step."""

    is_retriable = False


class ConnectionLostError(PostgresError):
    """The server ended the connection, or was silent for too long. A new connection may help."""

    is_retriable = True


class ProtocolError(PostgresError):
    """The server sent what the protocol, or this module, does not know."""


def is_retriable(error: BaseException) -> bool:
    """Return whether the same call may succeed later, on a new connection, with nothing changed by a person.

    So are restarts, lost connections, too many connections, a slot whose former reader the server has not missed yet,
    and a full disk. Wrong credentials, missing rights and a statement that is wrong are not.
    """
    if isinstance(error, PostgresError):
        return error.is_retriable
    sqlstate = getattr(getattr(error, "diag", None), "sqlstate", None) or getattr(error, "sqlstate", None)
    if sqlstate is not None:
        return sqlstate in _RETRIABLE or sqlstate[:2] in _RETRIABLE_CLASSES
    import psycopg

    return isinstance(error, psycopg.OperationalError) and not _REFUSED.search(str(error))


def explain(error: BaseException) -> str:
    """Return the error in one line, with the next step where one is known. It has no password, and no row."""
    diagnosis = getattr(error, "diag", None)
    text = getattr(diagnosis, "message_primary", None) or " ".join(str(error).split())
    if isinstance(error, PostgresError):
        return text
    for pattern, step in _NEXT_STEPS:
        found = re.search(pattern, text)
        if found:
            return f"{text}: {step.format(**found.groupdict())}"
    return text
