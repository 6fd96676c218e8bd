"""Tables that join a running connector: their rows are read while the changes of all tables are streamed.

1. A table is met that has no snapshot. Where the log ends then is remembered: `bar_lsn`.
2. In a thread, a temporary slot is made. All transactions that commit before its position are in its snapshot, whose
   text and the tables' pages are the plan, as in the first snapshot. The slot is dropped again.
3. The plan is committed, with the stream's next transaction.
4. Chunks are read, each in a Kafka transaction between two of the stream's: of the rows that are visible now, those
   versions that the plan's snapshot saw as committed. A chunk waits until all that was written of them is visible.
5. The tables are recorded as whole, once the stream has passed the plan's position.

Changes of such a table are left out if they were committed before the plan's position, and written if after it. While
there is no plan, those from before `bar_lsn` are left out, and the stream waits at the first one after it.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.api import RetriableError, SourceTaskContext
from fencepost.builtin.postgres.source.planning import plan_of
from fencepost.builtin.postgres.source.progress import (
    Offsets,
    Plan,
    Progress,
    Server,
    log_end,
    record_offset,
    removal,
    table_offset,
)
from fencepost.builtin.postgres.source.publishing import Capture
from fencepost.builtin.postgres.source.reading import ChunkReading
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.builtin.postgres.source.turn import Turn
from fencepost.postgres import pgoutput
from fencepost.postgres.connection import connect
from fencepost.postgres.error import explain
from fencepost.postgres.slots import create_slot

log = logging.getLogger(__name__)

_RETRY_S, _SLOT_S = 60.0, 120.0
_AGAIN_S = 30.0
_CANCEL_S = 5.0
_RUNNING = """
SELECT transactionid::text FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
"""


class PlanMaker:
    """Makes the plan of tables, in a thread: it waits for the transactions that have written and are open."""

    def __init__(self, config: SourceSettings, oids: frozenset[int], bar_lsn: int) -> None:
        self._config, self.oids, self.bar_lsn = config, oids, bar_lsn
        self.plan: Plan | None = None
        self._holder: Any = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="postgres-join", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Let the thread end, and with it its slot. There is no plan then."""
        self._is_closed = True
        if self._holder is not None:
            with suppress(Exception):  # it has ended, or the server does not answer
                self._holder.cancel_safe(timeout=_CANCEL_S)

    def _run(self) -> None:
        try:
            self.plan = self._made()
        except Exception as error:
            if self._is_closed:
                return
            text = "%s: the rows of tables that joined are read later, and their changes written from then on: %s"
            log.warning(text, self._config.prefix, explain(error))

    def _made(self) -> Plan | None:
        config = self._config
        settings = config.connection_settings()
        with closing(connect(settings, replication=True)) as holder, closing(connect(settings)) as sql:
            self._holder = holder
            server = Server.at(holder)
            if self._is_closed:
                return None
            name = f"{config.slot_name[:50]}_{secrets.token_hex(4)}"
            made = create_slot(holder, name, export_snapshot=True, temporary=True, timeout_s=_SLOT_S)
            plan = plan_of(sql, config, made, server, self.oids)
        # Without the snapshot's name: no chunk is read in it, as the stream may have passed it.
        return replace(plan, name="")


@dataclass
class _Tables:
    """Which tables are whole, which wait for a plan, and which plan is made or committed, by the tables' oids."""

    known: set[int]
    plan: Plan | None = None
    planned: frozenset[int] = frozenset()
    wanted: set[int] = field(default_factory=set)
    retry_s: float = 0.0
    """When a plan for those that are wanted may be made, on the monotonic clock."""

    def take(self, plan: Plan | None) -> None:
        self.plan = plan
        self.planned = frozenset() if plan is None else frozenset(table.shown_as for table in plan.tables)


class Joining:
    """Decides about changes of tables without a snapshot, and reads their rows. Used by the task's thread only."""

    def __init__(
        self, config: SourceSettings, context: SourceTaskContext, sql: Any, committed: Callable[[], Progress]
    ) -> None:
        """Begin, before a stream is opened. `sql` is a connection; `committed` returns what committed offsets say."""
        self._config, self._sql, self._committed = config, sql, committed
        self.due: Offsets = {}
        """Offsets that the next transaction of the stream has to commit."""
        progress = committed()
        captured = {table.oid: f"{table.schema}.{table.name}" for table in Capture.of(sql, config).tables}
        self._tables = _Tables(set(progress.tables))
        self._tables.take(progress.plan)
        if not progress.tables and progress.plan is None:  # offsets of Debezium's, or older than the record of tables
            self._tables.known.update(captured)
            self.due.update(record_offset(config.prefix))
            for oid, name in captured.items():
                self.due.update(table_offset(config.prefix, oid, name))
        self._tables.wanted = captured.keys() - self._tables.known - self._tables.planned
        self._chunks = _Chunks(config, context, sql, progress) if progress.plan is not None else None
        self._context = context
        self._maker: PlanMaker | None = None

    def meet(self, oid: int) -> None:
        """Take note of a captured table that the stream shows."""
        tables = self._tables
        if oid not in tables.known and oid not in tables.planned and oid not in tables.wanted:
            tables.wanted.add(oid)
            tables.retry_s = 0.0

    @property
    def is_planning(self) -> bool:
        """Say whether a plan is being made. It changes with `advance` and `give_up` only."""
        return self._maker is not None

    def is_undecided(self, message: Any, commit_lsn: int) -> bool:
        """Say whether the stream has to wait before a change, until there is a plan."""
        maker = self._maker
        if maker is None or commit_lsn < maker.bar_lsn:
            return False
        oids = message.oids if isinstance(message, pgoutput.Truncate) else (getattr(message, "oid", None),)
        return not maker.oids.isdisjoint(oids) and not isinstance(message, pgoutput.Relation)

    def is_written(self, oid: int, begin: pgoutput.Begin) -> bool:
        """Say whether a change of a captured table is written."""
        tables = self._tables
        if tables.plan is None or oid not in tables.planned:
            return oid in tables.known
        if begin.final_lsn < tables.plan.lsn:
            return False
        if self._chunks is not None:
            self._chunks.unseen.add(begin.xid)
        return True

    def advance(self) -> None:
        """Begin to make a plan, or take one that is made. Called between messages."""
        tables, maker = self._tables, self._maker
        if maker is not None and not maker.is_running:
            self._maker, tables.retry_s = None, time.monotonic() + _RETRY_S
            if maker.plan is not None:
                tables.wanted -= maker.oids
                tables.take(maker.plan)
                self.due.update(maker.plan.offsets(self._config.prefix))
                self._chunks = _Chunks(self._config, self._context, self._sql, None)
        elif maker is None and tables.plan is None and tables.wanted and time.monotonic() >= tables.retry_s:
            self._maker = PlanMaker(self._config, frozenset(tables.wanted), log_end(self._sql))

    def give_up(self) -> None:
        """Let go of the plan that is being made: what it is for is left out, and a later plan sees it."""
        assert self._maker is not None
        log.info(
            "%s: the plan of tables that joined is made later: a large transaction changes them", self._config.prefix
        )
        self._end_maker()

    def _end_maker(self) -> None:
        if self._maker is not None:
            self._maker.close()
        self._maker, self._tables.retry_s = None, time.monotonic() + _RETRY_S

    def take_due(self) -> Offsets:
        taken, self.due = self.due, {}
        return taken

    def turn(self, position_lsn: int) -> Turn | None:
        """Return what is to be written of chunks, or None. Every other call returns None, for the stream's sake.

        Called only while the open Kafka transaction has nothing of the stream's. `position_lsn` is the stream's.
        """
        plan, chunks = self._tables.plan, self._chunks
        if plan is None or chunks is None:
            return None
        found = chunks.turn()
        if found is None and chunks.is_over and position_lsn >= plan.lsn:
            progress = self._committed()
            if next(progress.unread(), None) is not None:  # without transactions, rows may still be on their way
                return None
            self._chunks = None
            return Turn(offsets={**plan.table_offsets(self._config.prefix), **removal(progress)}, ends=True)
        return found

    def committed(self) -> None:
        """Learn that offsets were committed."""
        tables, progress = self._tables, self._committed()
        tables.known |= progress.tables
        if progress.plan is not None and self._chunks is not None:
            self._chunks.begin(progress)
        elif progress.plan is None and self._chunks is None:
            tables.take(None)

    def close(self) -> None:
        self._end_maker()
        if self._chunks is not None:
            self._chunks.close()


class _Chunks:
    """Reads the chunks of a plan that is committed, one after the other."""

    def __init__(self, config: SourceSettings, context: SourceTaskContext, sql: Any, progress: Progress | None) -> None:
        """`progress` has the plan, if it is committed: by a process before, which may have written changes."""
        self._config, self._context, self._sql = config, context, sql
        self._reading: ChunkReading | None = None
        self._is_open = False
        self._has_waited = False
        self._again_s = 0.0
        self.unseen: set[int] = set()
        """Transactions of which changes were written, and which may be invisible yet: they become visible a moment
        after the server has sent them, or much later, if a standby has to confirm them."""
        if progress is not None:
            self.unseen = self._running()
            self.begin(progress)

    @property
    def is_over(self) -> bool:
        return self._reading is not None and self._reading.is_over

    def begin(self, progress: Progress) -> None:
        """Begin with the plan that is committed, if that is not done."""
        if self._reading is None:
            self._reading = ChunkReading(self._config, self._context, progress, is_alone=True)

    def turn(self) -> Turn | None:
        if self._reading is None or self._reading.is_over:
            return None
        if not self._is_open:
            self._has_waited = not self._has_waited
            if self._has_waited or time.monotonic() < self._again_s or not self._is_visible():
                return None
        try:
            turn = self._reading.turn()
        except RetriableError as error:
            if self._is_open:
                raise
            log.warning("%s: %s", self._config.prefix, error)
            self._reading.reset()
            self._again_s = time.monotonic() + _AGAIN_S
            return None
        self._is_open = not turn.ends
        return turn

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()

    def _is_visible(self) -> bool:
        if self.unseen:
            self.unseen &= self._running()
        return not self.unseen

    def _running(self) -> set[int]:
        """Return all transactions that may be invisible: each holds a lock of its own until after it is visible."""
        return {int(xid) for (xid,) in self._sql.execute(_RUNNING).fetchall()}
