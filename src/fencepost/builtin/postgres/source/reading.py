"""The stage in which chunks are read: each in one transaction of the database, and written in one of Kafka."""

import logging
from collections.abc import Container, Iterator
from contextlib import ExitStack, closing
from itertools import takewhile
from typing import Any

from fencepost.api import Batch, RetriableError, SourceTaskContext
from fencepost.builtin.postgres.envelope import Position as Place
from fencepost.builtin.postgres.envelope import TableFilter, TableShape
from fencepost.builtin.postgres.source.progress import Chunk, Offsets, Part, Plan, Progress, again_offset
from fencepost.builtin.postgres.source.publishing import published
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.builtin.postgres.source.snapshot import RewrittenError, Selection, SnapshotReader
from fencepost.builtin.postgres.source.turn import NOTHING, Turn
from fencepost.builtin.postgres.source.writer import now_us, snapshot_batch
from fencepost.postgres.catalog import Table, table
from fencepost.postgres.connection import connect
from fencepost.postgres.error import explain

log = logging.getLogger(__name__)

_IDLE_S = 0.5


class _LeftError(Exception):
    """A table is not captured any more."""


class _Session:
    """Two connections: one for the rows of a chunk, the other to ask about its table as it is now."""

    def __init__(self, config: SourceSettings, plan: Plan, part: Part, whole: Container[int]) -> None:
        """`whole` are the tables whose rows were read before."""
        self._config, self._whole = config, whole
        with ExitStack() as opened:
            rows, self._sql = (opened.enter_context(closing(connect(config.connection_settings()))) for _ in range(2))
            self._opened = opened.pop_all()
        self._reader = SnapshotReader(rows, plan, config.snapshot_name or plan.name, is_streamed=config.has_stream)
        self._place = Place(plan.lsn, None, None, now_us())
        self._partition = dict(next(iter(plan.part_offset(config.prefix, part))))

    def batches(self, chunk: Chunk) -> Iterator[Batch]:
        """Return the rows of a chunk, all from one transaction of the database."""
        shapes: list[TableShape] = []

        def selection() -> Selection:
            found, chosen = self._published(chunk)
            shapes.append(TableShape(found, self._config))
            return chosen

        for rows in self._reader.rows(chunk, selection):
            yield snapshot_batch(self._config, shapes[0], rows, self._place, self._partition, self._kind(chunk))

    def close(self) -> None:
        self._opened.close()

    def _kind(self, chunk: Chunk) -> str:
        """Return what the source block says of rows: as Debezium has it, those that a signal asks for are others."""
        is_again = chunk.table.shown_as in self._whole or not self._config.has_snapshot
        return "incremental" if is_again else "true"

    def _published(self, chunk: Chunk) -> tuple[Table, Selection]:
        """Return a table with the columns that its publication has, as the stream will, and the rows to read."""
        name = self._config.publication_name
        now = table(self._sql, chunk.table.shown_as)
        found = None if now is None else published(self._sql, name, now)
        if now is None or found is None or not TableFilter(self._config)(now.schema, now.name):
            text = f"table {chunk.table.name} is not captured by publication {name} any more"
            raise _LeftError(text) if self._config.has_stream else RetriableError(f"{text}: add it again")
        shown, row_filter = found
        return shown, Selection(tuple(column.name for column in shown.columns), row_filter)


class ChunkReading:
    """Reads the chunks of one task's part. With the last one the task waits for the others', if there are others."""

    def __init__(
        self,
        config: SourceSettings,
        context: SourceTaskContext,
        progress: Progress,
        holder: Any = None,
        *,
        is_alone: bool = False,
    ) -> None:
        """`holder` keeps the snapshot while it is open (a connection), if this process has made it.

        With `is_alone`, all chunks are this task's, and not those of its part only.
        """
        self._part = Part(0, 1, 0) if is_alone else Part(config.part, config.parts, 0)
        self._config, self._context, self._progress, self._holder = config, context, progress, holder
        self._todo = list(progress.unread(self._part.number, self._part.of))[::-1]
        self._session: _Session | None = None
        self._turns: Iterator[Turn] | None = None

    @property
    def _plan(self) -> Plan:
        assert self._progress.plan is not None
        return self._progress.plan

    @property
    def is_over(self) -> bool:
        return not self._todo and self._turns is None and self._part.of == 1

    def turn(self) -> Turn:
        if self._turns is None:
            if not self._todo:
                self._context.wait(_IDLE_S)
                return NOTHING
            self._turns = self._chunk(self._plan.chunk(self._todo[-1]))
        count, turn = len(self._todo), next(self._turns)
        if len(self._todo) < count:
            self._turns = None
        return turn

    def committed(self, offsets: Offsets) -> None:
        pass

    def reset(self) -> None:
        self._turns = None
        self._close_session()

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def close(self) -> None:
        self.reset()
        if self._holder is not None:
            self._holder.close()

    def _skip(self, chunk: Chunk) -> int:
        """Return the number of the last chunk of a table in this part, which is not read to its end."""
        self._close_session()
        of_table = takewhile(lambda each: self._plan.chunk(each).table == chunk.table, reversed(self._todo))
        return list(of_table)[-1]

    def _chunk(self, chunk: Chunk) -> Iterator[Turn]:
        """Return a chunk as turns; the last one ends the transaction."""
        from psycopg.errors import InsufficientPrivilege

        if self._session is None:
            self._session = _Session(self._config, self._plan, self._part, self._progress.tables)
        last = chunk.number
        try:
            yield from map(Turn, self._session.batches(chunk))
        except InsufficientPrivilege as error:
            if chunk.table.shown_as not in self._progress.tables and self._config.has_snapshot:
                raise
            log.warning("table %s is not read again: %s", chunk.table.name, explain(error))
            last = self._skip(chunk)
        except (RewrittenError, _LeftError) as error:  # before the first row
            if not self._config.has_stream:
                raise
            log.warning("%s: all its rows are read again, as soon as they can be: %s", chunk.table.name, error)
            last = self._skip(chunk)
            # By itself: without transactions, offsets of different partitions are stored in no order.
            yield Turn(offsets=again_offset(self._config.prefix, chunk.table.shown_as, 0), ends=True)
        while self._todo and self._todo[-1] <= last:
            self._todo.pop()
        part = self._part._replace(next=last + 1)
        yield Turn(offsets=self._plan.part_offset(self._config.prefix, part), ends=True)
