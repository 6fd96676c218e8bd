"""The sink's connection, and its transactions.

One transaction: 1 temporary tables are made ▸ 2 filled by COPY ▸ 3 one message moves the offsets, changes the tables
and commits. What others may wait for, rows and offsets, is locked only in 3, which the server carries out to its end
without the client: a task that hangs at any moment blocks nobody.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fencepost.api import FatalError, FencedError, FencingToken, RecordError, RetriableError
from fencepost.builtin.postgres.sink.changes import BadRecordsError, Changes
from fencepost.builtin.postgres.sink.offsets import FENCED, Log, Move, OffsetTable
from fencepost.builtin.postgres.sink.settings import SinkSettings
from fencepost.builtin.postgres.sink.table_name import TableName
from fencepost.builtin.postgres.sink.target import LOCK_MS, Stage, Tables
from fencepost.postgres import connect, explain, is_retriable

_IDLE_MS = 30_000
_BEGIN = (
    f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {_IDLE_MS}; SET LOCAL lock_timeout = {LOCK_MS}; "
    "SET LOCAL client_min_messages = warning"
)
# A value that does not fit (for some types a syntax error), a constraint, a limit of a row, a trigger or a view.
_OF_ROW = ("22", "42601", "23", "54", "44", "P0")
_TABLE_CHANGED = frozenset({"42P01", "42703", "42804", "3F000", "428C9"})
_NO_UNIQUE_INDEX = "42P10"
_TRIES = 3


class TableChangedError(FatalError):
    """A table or column is not as it was when it was looked at."""


class RowError(Exception):
    """The server refuses a row of a transaction; which one is not known."""


class Database:
    """A connection to the sink's database. Belongs to one task, and is made again after an error."""

    def __init__(self, settings: SinkSettings, sink: str) -> None:
        self._settings = settings
        self._offsets = OffsetTable(TableName.parse(settings.offsets_table, settings.default_schema), sink)
        self._tables = Tables(settings)
        self._connection: Any = None
        self._sink = sink

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def connect(self) -> None:
        """Connect, and create the table of offsets if it is missing. Raises RetriableError or FatalError."""
        self.close()
        with self._translated():
            self._connection = connect(self._settings.connection(f"fencepost-{self._sink}"), fixed_formats=False)
            self._offsets.ensure(self._connection)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        self._tables.forget()
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def claim(self, logs: Sequence[Log], token: FencingToken) -> dict[Log, int | None]:
        """Own partitions, as `OffsetTable.claim` does."""
        with self._translated():
            return self._offsets.claim(self._connection, logs, token)

    def alter(self, offsets: Any) -> None:
        with self._translated():
            self._offsets.alter(self._connection, offsets)

    def write(self, changes: Sequence[Changes], moves: Sequence[Move], token: FencingToken) -> None:
        """Change tables and move offsets in one transaction.

        Raises:
            BadRecordsError: these records can never be written; nothing was.
            RetriableError: whether it was committed is not known, but the offsets say it (`claim`).
            FencedError: another task owns a partition.
            FatalError: the database refuses it.
        """
        refused: Exception = RowError("")
        for attempt in range(_TRIES):
            try:
                with self._translated():
                    stages = self._stages(changes)
                    self._begin(stages)  # 1
                    self._copy(stages)  # 2
                    self._finish([self._offsets.move_sql(moves, token), *_merges(stages), "COMMIT"])  # 3
                return
            except TableChangedError:
                if attempt:
                    raise
                self._tables.forget()
            except RowError as error:
                refused = error
                found = self._bad_records(changes)
                if found:
                    raise BadRecordsError(found) from None
        raise FatalError(f"the database refuses these records together, but none alone: {refused}")

    def _stages(self, changes: Sequence[Changes]) -> list[tuple[Stage, bytes]]:
        known = [(each, found) for each in changes if (found := self._tables.ensure(self._connection, each))]
        stages = [Stage(at, each, found, self._settings) for at, (each, found) in enumerate(known)]
        return [(stage, stage.data()) for stage in stages]

    def _begin(self, stages: Sequence[tuple[Stage, bytes]]) -> None:
        self._connection.execute("; ".join([_BEGIN, *(stage.create for stage, _ in stages)]))

    def _copy(self, stages: Sequence[tuple[Stage, bytes]]) -> None:
        for stage, data in stages:
            with self._connection.cursor() as cursor, cursor.copy(stage.copy) as copy:
                copy.write(data)

    def _finish(self, statements: Sequence[str]) -> None:
        self._connection.execute("; ".join(statements))

    def _bad_records(self, changes: Sequence[Changes]) -> list[tuple[int, Exception]]:
        """Return the records that the server refuses one by one, found by halving in a transaction that is undone."""
        found: list[tuple[int, Exception]] = []
        with self._translated():
            connection = self._connection
            connection.execute(f"{_BEGIN}; SET CONSTRAINTS ALL IMMEDIATE")
            try:
                for each in changes:
                    if not (known := self._tables.ensure(connection, each)):
                        continue
                    self._halve(each, lambda part, known=known: Stage(0, part, known, self._settings), found)  # type: ignore[misc]
            finally:
                with contextlib.suppress(Exception):
                    connection.execute("ROLLBACK")
        return found

    def _halve(self, part: Changes, stage_of: Callable[[Changes], Stage], found: list[tuple[int, Exception]]) -> None:
        connection = self._connection
        connection.execute("SAVEPOINT part")
        try:
            stage = stage_of(part)
            data = stage.data()
            connection.execute(stage.create)
            self._copy([(stage, data)])
            connection.execute("; ".join([*stage.merge, f"DROP TABLE {stage.sql}", "RELEASE SAVEPOINT part"]))
            return
        except Exception as error:
            if not _is_of_row(error):
                raise
            connection.execute("ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part")
            if len(part) == 1:
                found.append((part.rows[0], RecordError(f"table {part.table}: {_reason(error)}")))
                return
        middle = len(part) // 2
        self._halve(part.part(0, middle), stage_of, found)
        self._halve(part.part(middle, len(part)), stage_of, found)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn errors of the database into what the runtime should do. A connection that may be broken is dropped."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if self._connection is not None and not self._connection.closed and _is_of_row(error):
                self._undo()
                raise RowError(_reason(error)) from None
            if state in _TABLE_CHANGED:
                self._undo()
                raise TableChangedError(f"the database refuses it: {_reason(error)}") from None
            was_lost = self._connection is not None and self._connection.closed
            self.close()
            raise _translated(error, self._settings, was_lost=was_lost) from None
        except Exception:
            self._undo()
            raise

    def _undo(self) -> None:
        if self._connection is None:
            return
        try:
            if self._connection.info.transaction_status:
                self._connection.execute("ROLLBACK")
        except Exception:
            self.close()


def _merges(stages: Sequence[tuple[Stage, bytes]]) -> Iterator[str]:
    for stage, _ in stages:
        yield from stage.merge


def _is_of_row(error: Exception) -> bool:
    state = str(getattr(error, "sqlstate", None) or "")
    return state.startswith(_OF_ROW)


def _reason(error: Exception) -> str:
    """Return why the server refuses a row: its message with the column or constraint, without details."""
    diag = getattr(error, "diag", None)
    if diag is None:
        return type(error).__name__
    context = str(diag.context or "")
    column = diag.column_name or (context.rpartition("column ")[2].partition(":")[0] if "column " in context else None)
    parts = [str(diag.message_primary or type(error).__name__)]
    if column and column not in parts[0]:
        parts.insert(0, f"column {column}")
    return ": ".join(parts)


def _translated(error: Exception, settings: SinkSettings, *, was_lost: bool) -> Exception:
    state = str(getattr(error, "sqlstate", None) or "")
    if state == FENCED:
        return FencedError(explain(error))
    if state == _NO_UNIQUE_INDEX:
        return FatalError(
            f"{explain(error)}: insert.mode={settings.insert_mode.lower()} needs a unique index on exactly the columns "
            "of pk.fields"
        )
    if was_lost or is_retriable(error):
        return RetriableError(f"the database cannot be reached, or cannot do it now: {explain(error)}")
    return FatalError(f"the database refuses it: {explain(error)}")
