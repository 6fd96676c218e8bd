"""The database as one snapshot shows it, read block by block over one connection, so that the load is limited."""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from fencepost.builtin.postgres.audit.table import ComparedTable, Stored
from fencepost.postgres import ConnectionSettings, connect, copy_rows, parse_lsn
from fencepost.postgres.catalog import Table
from fencepost.postgres.name import literal, quoted

_CHUNK_PAGES = 8192  # 64 MiB: about a second
_STATEMENT_S = 600
_LOCK_S = 10
_BEGIN = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
    f"SET LOCAL statement_timeout = '{_STATEMENT_S}s'; SET LOCAL lock_timeout = '{_LOCK_S}s'; "
    "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL max_parallel_workers_per_gather = 0"
)
_END = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END"
_WRAP = 1 << 32
_LATER = 1 << 28  # transactions after a snapshot: hours of them. What is further away is of an earlier round


class Visible(NamedTuple):
    """Which transactions a snapshot shows. `end` is the id after the last one; `running` those before it that it lacks.

    Ids are those of 32 bits that records have, which may be billions of transactions old.
    """

    end: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "Visible":
        """Read the text of a `pg_snapshot`.

        >>> Visible.parse("10:20:10,14,15").end
        20
        """
        _, end, running = text.split(":")
        return cls(int(end) % _WRAP, frozenset(int(xid) % _WRAP for xid in running.split(",") if xid))

    def __contains__(self, xid: object) -> bool:
        assert isinstance(xid, int)
        return xid not in self.running and (xid - self.end) % _WRAP >= _LATER


class Rewritten(Exception):
    """A table was rewritten after the snapshot, which shows nothing of it any more. The text is its name."""


class DatabaseSnapshot:
    """An open transaction. Everything that it was committed for is in the log before `lsn`."""

    def __init__(self, settings: ConnectionSettings) -> None:
        """Connect. Raises psycopg.Error."""
        self._settings = settings
        self._other: Any = None
        self._connection = connect(settings)
        try:
            (encoding,) = self.row("SHOW server_encoding")
            self._is_utf8 = encoding == "UTF8"
            self.begin()
        except BaseException:
            self.close()
            raise

    @property
    def connection(self) -> Any:
        return self._connection

    def end(self) -> None:
        """Give the snapshot up."""
        self._connection.execute("ROLLBACK")

    def begin(self) -> None:
        """Take a snapshot."""
        self._connection.execute(_BEGIN)
        (text,) = self.row("SELECT pg_current_snapshot()::text")
        self.visible = Visible.parse(text)
        (end,) = self.row(f"SELECT {_END}::text")
        self.lsn = parse_lsn(end)

    def close(self) -> None:
        self._connection.close()
        if self._other is not None:
            self._other.close()

    def row(self, query: str) -> tuple[Any, ...]:
        found = self._connection.execute(query.encode()).fetchone()
        assert found is not None
        return found

    def cast(self, text: str, type_: str, form: str) -> str | None:
        """Return the form of what a type reads from a text. It may be called while rows are read.

        Raises ValueError if the type cannot read it.
        """
        import psycopg

        self._other = self._other or connect(self._settings)
        query = f"SELECT {form.format(c='v')} FROM (SELECT CAST({literal(text)} AS {type_}) AS v) AS read"
        try:
            found = self._other.execute(query.encode("utf-8", "surrogatepass")).fetchone()
        except (psycopg.DataError, psycopg.ProgrammingError) as error:
            raise ValueError(f"{type_} cannot read it") from error
        assert found is not None
        value: str | None = found[0]
        return value

    def stored(self, table: Table) -> Stored:
        """Return how a table is stored, as the snapshot has it."""
        (filenode,) = self.row(f"SELECT relfilenode::bigint FROM pg_class WHERE oid = {table.oid}")
        return Stored(table.oid, f"{quoted(table.schema)}.{quoted(table.name)}", filenode, table.pages)

    def sums(self, table: ComparedTable) -> Iterator[tuple[str, int, int]]:
        """Yield groups, with their number of rows and the sum of their hashes; a group may come several times.

        Raises Rewritten.
        """
        for stored, first, end in self._chunks(table):
            query = table.sums_query(stored, first, end, is_utf8=self._is_utf8)
            for group, count, total in self._connection.execute(query.encode()):
                yield group, count, int(total)

    def rows(self, table: ComparedTable, groups: Collection[str]) -> Iterator[list[str]]:
        """Yield the rows of groups: the hash of the key, and the texts of the key and of the columns."""
        for stored, first, end in self._chunks(table):
            for rows in copy_rows(
                self._connection, table.rows_query(stored, first, end, groups, is_utf8=self._is_utf8)
            ):
                yield from rows  # type: ignore[misc]

    def _chunks(self, table: ComparedTable) -> Iterator[tuple[Stored, int, int | None]]:
        for stored in table.stored:
            self._connection.execute(f"LOCK TABLE ONLY {stored.sql} IN ACCESS SHARE MODE".encode())
            (filenode,) = self.row(f"SELECT pg_relation_filenode({stored.oid})::bigint")
            if filenode != stored.filenode:
                raise Rewritten(stored.sql)
            for first in range(0, max(stored.pages, 1), _CHUNK_PAGES):
                end = first + _CHUNK_PAGES
                yield stored, first, end if end < stored.pages else None
