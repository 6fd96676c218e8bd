"""Reads chunks of a snapshot, with or without whoever holds it.

While the snapshot that was exported with the slot can be imported, chunks are read in it. Once it is lost, a chunk is
read in a new snapshot, and only those versions of rows are taken that the first one saw as committed: versions that
were made later come with the stream, which begins at the first one's point. Versions never move to another block, so
no chunk that is read later can have one that an earlier chunk had, or lack one that it lacked.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fencepost.api import FatalError, RetriableError
from fencepost.builtin.postgres.source.progress import Chunk, Plan
from fencepost.postgres.copy import copy_columns
from fencepost.postgres.name import literal, quoted

log = logging.getLogger(__name__)

_LOCK_S = 10
_EPOCH = 1 << 32
_NEXT_XID = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_LOST = (
    "the snapshot is lost before all its rows were read, as who held it has ended; with snapshot.mode=initial_only no "
    "changes follow, so rows that were changed since would be missing. Read all rows again: stop the connector, delete "
    "its offsets (DELETE /connectors/NAME/offsets), and resume it; or set snapshot.mode=initial"
)
_FIRST_XID = 3  # those below stand for "always committed"

Columns = list[Any]
"""An Arrow array of texts for each column."""


def visible(current: int, xids: str) -> str | None:
    """Return the condition that a version of a row was committed for the snapshot `xids`; None if all have to count.

    `current` is the next transaction id, of 64 bits. A row has the lower 32 bits of the one that made it, which lies
    before `current`. Rows that are frozen keep theirs, however old: once 2^32 transactions have passed, an old row may
    look like a new one, and nothing that SQL shows tells them apart. Then all rows count: one that is new is written
    twice, by the snapshot and by the stream, which is better than to lose one that is old.
    """
    if current >= _EPOCH:
        return None
    return f"(xmin::text::bigint < {_FIRST_XID} OR pg_visible_in_snapshot(xmin::text::xid8, '{xids}'::pg_snapshot))"


def import_snapshot(connection: Any, name: str) -> None:
    """Begin a transaction that only reads, and sees the snapshot that another connection exports by a name."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute(f"SET TRANSACTION SNAPSHOT {literal(name)}".encode())


def in_blocks(first: int, end: int | None) -> str:
    """Return the condition that a row is on the blocks from `first` up to before `end`; None: up to the table's end."""
    last = "" if end is None else f" AND ctid < '({end},0)'::tid"
    return f"ctid >= '({first},0)'::tid{last}"


class Selection(NamedTuple):
    """The columns of a table that are read, by name, and a condition for its rows, in SQL."""

    columns: Sequence[str]
    row_filter: str | None = None


def chunk_query(chunk: Chunk, table: str, selection: Selection, condition: str | None) -> str:
    """Return the query of a chunk's rows. The table's name is quoted already."""
    where = [in_blocks(chunk.first_page, chunk.end_page)]
    where += [f"({each})" for each in (condition, selection.row_filter) if each is not None]
    columns = ", ".join(map(quoted, selection.columns))
    return f"SELECT {columns} FROM ONLY {table} WHERE {' AND '.join(where)}"


class RewrittenError(FatalError):
    """A table was rewritten while its rows were read, so which of them were read cannot be told any more."""

    def __init__(self, table: str) -> None:
        super().__init__(
            f"table {table} was rewritten while its snapshot was read (VACUUM FULL, CLUSTER, TRUNCATE or an ALTER "
            "TABLE that changes rows), so what was read and what was not cannot be told apart any more. Begin the "
            "snapshot again: stop the connector, delete its offsets (DELETE /connectors/NAME/offsets), drop its slot, "
            "and resume it"
        )


class SnapshotReader:
    """Reads the chunks of one plan over one connection (`psycopg.Connection`, with autocommit)."""

    def __init__(self, connection: Any, plan: Plan, name: str, *, is_streamed: bool = True) -> None:
        """`name` is the one under which the snapshot is exported now; empty: it is not.

        `is_streamed` says whether the stream follows, which brings the versions that a later snapshot leaves out.
        """
        self._connection = connection
        self._plan = plan
        self._is_streamed = is_streamed
        self._name: str | None = name or None

    def rows(self, chunk: Chunk, selection: Callable[[], Selection]) -> Iterator[Columns]:
        """Return the rows of a chunk, in batches of columns, all from one transaction.

        Args:
            chunk: Which blocks.
            selection: Returns what is read of the table. Called once it cannot change its form.

        Raises:
            RewrittenError: The table was rewritten since the plan was made, so that its rows are on other blocks.
            FatalError: The snapshot is lost, and no stream follows.
            RetriableError: The table is locked.
        """
        try:
            with self._connection.cursor() as cursor:
                condition = self._begin(cursor)
                name = self._locked(cursor, chunk)
                if name is not None:
                    yield from copy_columns(self._connection, chunk_query(chunk, name, selection(), condition))
                cursor.execute("ROLLBACK")
        except BaseException:  # rows may be on their way: the connection is of no more use
            self._connection.close()
            raise

    def _begin(self, cursor: Any) -> str | None:
        """Begin a transaction. Returns the condition for rows; None if all that it sees are those of the snapshot."""
        from psycopg import errors

        if self._name is not None:
            try:
                import_snapshot(cursor, self._name)
                return None
            except (errors.InvalidParameterValue, errors.UndefinedObject, errors.ObjectNotInPrerequisiteState):
                log.warning("snapshot %s is not held any more; chunks are read by who was committed", self._name)
                self._name = None
                cursor.execute("ROLLBACK")
        if not self._is_streamed:
            raise FatalError(_LOST)
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute(_NEXT_XID)
        (current,) = cursor.fetchone()
        return visible(int(current), self._plan.xids)

    def _locked(self, cursor: Any, chunk: Chunk) -> str | None:
        """Lock a table against changes of its form. Returns its name, quoted; None if it was dropped."""
        import psycopg

        cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_S}s'")
        cursor.execute("SELECT %s::oid::regclass::text", (chunk.table.oid,))
        (name,) = cursor.fetchone()
        if name == str(chunk.table.oid):
            log.warning("table %s was dropped before its snapshot was complete", chunk.table.name)
            return None
        try:
            cursor.execute(f"LOCK TABLE ONLY {name} IN ACCESS SHARE MODE")
        except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable) as error:
            raise RetriableError(f"table {name} cannot be locked to read its snapshot, and is tried again") from error
        cursor.execute("SELECT pg_relation_filenode(%s)", (chunk.table.oid,))
        (filenode,) = cursor.fetchone()
        if filenode != chunk.table.filenode:
            raise RewrittenError(chunk.table.name)
        return str(name)
