"""Connections to Postgres, by psycopg and libpq."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fencepost.postgres.error import ConnectionLostError, PostgresError

if TYPE_CHECKING:
    import psycopg

_KEEP_ALIVE_S = 30
_UNANSWERED_MS = 60_000
_CANCEL_S = 5.0

# Values come as text: these make one text of each value, on every server and for every user.
_FORMATS = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lc_monetary": "C",
}


@dataclass(frozen=True)
class ConnectionSettings:
    """Where a server is, and how to connect. Printing it does not show the password.

    The TLS settings are libpq's: `sslmode` and files of certificates in PEM. `options` are those of the server's
    command line, such as `-c statement_timeout=60000`.
    """

    host: str
    database: str
    user: str
    port: int = 5432
    password: str | None = field(default=None, repr=False)
    sslmode: str = "prefer"
    sslrootcert: str | None = None
    sslcert: str | None = None
    sslkey: str | None = None
    connect_timeout_s: int = 10
    application_name: str = "fencepost"
    options: str = ""
    tcp_keep_alive: bool = True

    def parameters(self) -> dict[str, str | int]:
        """Return libpq's parameters, the password included."""
        found: dict[str, str | int | None] = {
            "host": self.host,
            "port": self.port,
            "dbname": self.database,
            "user": self.user,
            "password": self.password,
            "sslmode": self.sslmode,
            "sslrootcert": self.sslrootcert,
            "sslcert": self.sslcert,
            "sslkey": self.sslkey,
            "connect_timeout": self.connect_timeout_s,
            "application_name": self.application_name,
            "client_encoding": "UTF8",
            "keepalives": int(self.tcp_keep_alive),
        }
        if self.tcp_keep_alive:
            found |= {"keepalives_idle": _KEEP_ALIVE_S, "keepalives_interval": 10, "keepalives_count": 3}
            found["tcp_user_timeout"] = _UNANSWERED_MS
        return {name: value for name, value in found.items() if value is not None}


def connect(
    settings: ConnectionSettings, *, replication: bool = False, autocommit: bool = True, fixed_formats: bool = True
) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect; with `replication`, so that the connection takes the commands of logical replication besides SQL.

    Args:
        settings: Where and how.
        replication: Statements go by the simple protocol; always `autocommit`.
        autocommit: As in psycopg.
        fixed_formats: Make values the same text everywhere: dates in ISO, times in UTC, `bytea` in hex. A pooler may
            refuse the parameter `options` that does this.

    Raises:
        psycopg.OperationalError: `is_retriable` and `explain` say more.
        PostgresError: psycopg is not installed.
    """
    try:
        import psycopg
    except ImportError:
        raise PostgresError(
            "Postgres needs a library that is not installed: `pip install 'fencepost[postgres]'` on the worker and on "
            "all executors"
        ) from None
    parameters = settings.parameters()
    options = [settings.options] if settings.options else []
    if fixed_formats:
        options += [f"-c {name}={value}" for name, value in _FORMATS.items()]
    if options:
        parameters["options"] = " ".join(options)
    if replication:
        parameters["replication"] = "database"
    return psycopg.connect(
        autocommit=autocommit or replication,
        prepare_threshold=None,  # a pooler in transaction mode loses prepared statements
        cursor_factory=psycopg.ClientCursor if replication else None,  # a walsender has no extended protocol
        **parameters,  # type: ignore[arg-type]
    )


@contextmanager
def deadline(connection: "psycopg.Connection[Any]", timeout_s: float, doing: str) -> Iterator[None]:
    """Cancel the statement and cut the connection if the block takes longer.

    psycopg itself waits for ever for a server that hangs.

    Args:
        connection: It is of no use after the cut.
        timeout_s: In seconds.
        doing: For the error's text, such as "creating the slot shop".

    Raises:
        ConnectionLostError: The block took too long.
    """
    cut = threading.Event()
    with socket.socket(fileno=socket.dup(connection.fileno())) as own:  # the connection may close its own meanwhile

        def expire() -> None:
            cut.set()
            with suppress(Exception):  # a server that hangs does not answer this either
                connection.cancel_safe(timeout=_CANCEL_S)
            with suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(timeout_s, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception as error:
            if cut.is_set():
                raise ConnectionLostError(f"{doing}: the server did not answer within {timeout_s:g} s") from error
            raise
        finally:
            timer.cancel()
            timer.join()
