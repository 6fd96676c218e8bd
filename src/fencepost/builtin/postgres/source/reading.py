"""The stage in which chunks are read: each in one transaction of the database, and written in one of Kafka."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

from fencepost.api import Batch, RetriableError, SourceTaskContext
from fencepost.builtin.postgres.envelope import Position as Place
from fencepost.builtin.postgres.envelope import TableShape
from fencepost.builtin.postgres.source.progress import Chunk, Offsets, Part, Plan, Progress
from fencepost.builtin.postgres.source.publishing import published
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.builtin.postgres.source.snapshot import Selection, SnapshotReader
from fencepost.builtin.postgres.source.turn import NOTHING, Turn
from fencepost.builtin.postgres.source.writer import now_us, snapshot_batch
from fencepost.postgres.catalog import Table, table
from fencepost.postgres.connection import connect

_IDLE_S = 0.5


class _Session:
    """Two connections: one for the rows of a chunk, the other to ask about its table as it is now."""

    def __init__(self, config: SourceSettings, plan: Plan, part: Part) -> None:
        self._config = config
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
            yield snapshot_batch(self._config, shapes[0], rows, self._place, self._partition)

    def close(self) -> None:
        self._opened.close()

    def _published(self, chunk: Chunk) -> tuple[Table, Selection]:
        """Return a table with the columns that its publication has, as the stream will, and the rows to read."""
        name = self._config.publication_name
        now = table(self._sql, chunk.table.shown_as)
        found = None if now is None else published(self._sql, name, now)
        if found is None:
            raise RetriableError(f"table {chunk.table.name} is not in publication {name} any more: add it again")
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
        assert progress.plan is not None
        self._part = Part(0, 1, 0) if is_alone else Part(config.part, config.parts, 0)
        self._config, self._context, self._plan, self._holder = config, context, progress.plan, holder
        self._todo = list(progress.unread(self._part.number, self._part.of))[::-1]
        self._session: _Session | None = None
        self._turns: Iterator[Turn] | None = None

    @property
    def is_over(self) -> bool:
        return not self._todo and self._turns is None and self._part.of == 1

    def turn(self) -> Turn:
        if self._turns is None:
            if not self._todo:
                self._context.wait(_IDLE_S)
                return NOTHING
            self._turns = self._chunk(self._plan.chunk(self._todo[-1]))
        turn = next(self._turns)
        if turn.ends:
            self._turns = None
            self._todo.pop()
        return turn

    def committed(self, offsets: Offsets) -> None:
        pass

    def reset(self) -> None:
        if self._session is not None:
            self._session.close()
        self._turns = self._session = None

    def close(self) -> None:
        self.reset()
        if self._holder is not None:
            self._holder.close()

    def _chunk(self, chunk: Chunk) -> Iterator[Turn]:
        """Return a chunk as turns; the last one ends the transaction."""
        if self._session is None:
            self._session = _Session(self._config, self._plan, self._part)
        yield from map(Turn, self._session.batches(chunk))
        part = self._part._replace(next=chunk.number + 1)
        yield Turn(offsets=self._plan.part_offset(self._config.prefix, part), ends=True)
