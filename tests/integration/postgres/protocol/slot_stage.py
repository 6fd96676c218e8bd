"""A database with a slot and a publication, and what is read from them."""

import contextlib
import time
from typing import Any, Self

from fencepost.postgres import (
    ConnectionSettings,
    KeepAlive,
    ReplicationStream,
    connect,
    create_slot,
    decode,
    decode_streamed,
    explain,
    is_retriable,
)
from fencepost.postgres.pgoutput import PgOutput, StreamStart, StreamStop
from support.postgres import Postgres

WITHIN_S = 240.0


class Stage:
    """A database; `slot` and `publication` have its name."""

    def __init__(self, server: Postgres, name: str) -> None:
        self.server = server
        self.name = name
        self.settings = settings(server, name)
        self._closing = contextlib.ExitStack()
        self.connection = self.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()
        with contextlib.closing(connect(settings(self.server, "postgres"))) as other:
            other.execute(f"DROP DATABASE {self.name} WITH (FORCE)".encode())

    def connect(self, *, replication: bool = False) -> Any:
        return self._closing.enter_context(contextlib.closing(connect(self.settings, replication=replication)))

    def reconnect(self) -> None:
        self.connection = self.connect()

    def sql(self, *statements: str) -> list[Any]:
        """Carry out statements. Returns the rows of the last one."""
        for statement in statements:
            cursor = self.connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def slot(self) -> int:
        """Create a publication of all tables, and a slot that is dropped at the end. Returns where it begins."""
        self.sql(f"CREATE PUBLICATION {self.name} FOR ALL TABLES")
        made = create_slot(self.connect(replication=True), self.name, timeout_s=WITHIN_S)
        self.drop_slot_at_end()
        return made.consistent_lsn

    def drop_slot_at_end(self) -> None:
        self._closing.callback(self._drop)

    def stream(self, start_lsn: int = 0, *, streaming: bool = False, dead_after_s: float = 240.0) -> ReplicationStream:
        """Read the slot; the server may need a while to notice that a former reader has gone."""
        until = time.monotonic() + WITHIN_S
        while True:
            connection = self.connect(replication=True)
            try:
                return ReplicationStream(
                    connection, self.name, self.name, start_lsn, streaming=streaming, dead_after_s=dead_after_s
                )
            except Exception as error:
                if not is_retriable(error) or time.monotonic() > until:
                    raise AssertionError(explain(error)) from error

    def _drop(self) -> None:
        with contextlib.closing(connect(settings(self.server, "postgres"))) as other:
            other.execute(
                b"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND slot_name = "
                + f"'{self.name}'".encode()
            )
            until = time.monotonic() + WITHIN_S
            active = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{self.name}'".encode()
            while (row := other.execute(active).fetchone()) and row[0] and time.monotonic() < until:
                pass
            drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = "
            other.execute(f"{drop}'{self.name}'".encode())


def settings(server: Postgres, database: str) -> ConnectionSettings:
    return ConnectionSettings(
        host="127.0.0.1", port=server.port, database=database, user="postgres", connect_timeout_s=120
    )


def read_until(stream: ReplicationStream, kind: type, count: int = 1) -> list[PgOutput]:
    """Read messages until `count` of a kind have come, and the end of a block. Their transactions' ids are left out."""
    found: list[PgOutput] = []
    in_block = False
    until = time.monotonic() + WITHIN_S
    while in_block or sum(isinstance(each, kind) for each in found) < count:
        assert time.monotonic() < until, f"no {kind.__name__} after {found}"
        for item in stream.read(1, 1000):
            if isinstance(item, KeepAlive):
                continue
            message = decode_streamed(item[2])[1] if in_block else decode(item[2])
            in_block = (in_block or isinstance(message, StreamStart)) and not isinstance(message, StreamStop)
            found.append(message)
    return found


def of_kind(found: list[PgOutput], *kinds: type) -> list[Any]:
    return [each for each in found if isinstance(each, kinds)]
