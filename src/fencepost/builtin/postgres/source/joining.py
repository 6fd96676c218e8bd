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

Tables whose rows were read are read again in the same way, if a signal asks for it. All their changes are written, and
so no chunk is read before the stream has passed the plan's position: else a row would be followed by older changes.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from fencepost.api import RetriableError, SourceTaskContext
from fencepost.builtin.postgres.source.planning import plan_of
from fencepost.builtin.postgres.source.progress import (
    Offsets,
    Plan,
    Progress,
    Server,
    again_offset,
    log_end,
    read_again,
    record_offset,
    removal,
    table_offset,
)
from fencepost.builtin.postgres.source.publishing import Capture
from fencepost.builtin.postgres.source.reading import ChunkReading
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.builtin.postgres.source.signals import asked_for
from fencepost.builtin.postgres.source.turn import Turn
from fencepost.postgres import pgoutput
from fencepost.postgres.connection import connect
from fencepost.postgres.error import explain
from fencepost.postgres.slots import create_slot

log = logging.getLogger(__name__)

_RETRY_S, _SLOT_S = 60.0, 120.0
_AGAIN_S = 30.0
_CANCEL_S = 5.0
_MANY = 10_000
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
            text = "%s: the rows of tables that joined, or that a signal asks for, are read later: %s"
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
    wanted: set[int] = field(default_factory=set)
    captured: set[int] = field(default_factory=set)
    signals: int | None = None
    again: dict[int, int] = field(default_factory=dict)
    """Those that are read again, and after which place in the log."""
    unseen: set[int] = field(default_factory=set)
    """Transactions of which changes were written since a plan was asked for, and which may be invisible yet: they
    become visible a moment after the server has sent them, or much later, if a standby has to confirm them."""
    retry_s: float = 0.0
    """When a plan for those that are wanted may be made, on the monotonic clock."""

    @property
    def planned(self) -> frozenset[int]:
        return frozenset() if self.plan is None else self.plan.shown

    @property
    def missing(self) -> frozenset[int]:
        """Return those that need a plan. One that is not captured any more, or not yet again, waits."""
        return frozenset((self.wanted | self.again.keys()) & self.captured)

    @property
    def is_again(self) -> bool:
        """Say whether the plan has tables whose rows were read before."""
        return not self.planned.isdisjoint(self.known)


class Joining:
    """Decides about changes of tables without a snapshot, and reads their rows. Used by the task's thread only."""

    def __init__(
        self,
        config: SourceSettings,
        context: SourceTaskContext,
        sql: Any,
        committed: Callable[[], Progress],
        is_lost: Callable[[Plan], bool] = lambda plan: False,
    ) -> None:
        """Begin, before a stream is opened.

        Args:
            config, context: The task's.
            sql: A connection.
            committed: Returns what committed offsets say.
            is_lost: Says whether the server never had the place of a plan in its log: a standby that took over.
        """
        self._config, self._sql, self._committed = config, sql, committed
        self.due: Offsets = {}
        """Offsets that the next transaction of the stream has to commit."""
        progress = committed()
        captured = {oid: name for name, oid in self._captured().items()}
        self._tables = _Tables(set(progress.tables), progress.plan, captured=set(captured), again=dict(progress.again))
        if not config.has_snapshot:  # only what a signal asks for is read
            self._tables.known.update(captured)
        elif not progress.tables:  # offsets of Debezium's, or older than the record of tables
            self._tables.known.update(captured)
            self.due.update(record_offset(config.prefix))
            for oid, name in captured.items():
                self.due.update(table_offset(config.prefix, oid, name))
        if progress.plan is not None and is_lost(progress.plan):
            self._drop(progress, progress.plan)
        self._tables.wanted = captured.keys() - self._tables.known - self._tables.planned
        self._context = context
        self._chunks: _Chunks | None = None
        if self._tables.plan is not None:  # a process before may have written changes
            self._tables.unseen = _running(sql)
            self._chunks = _Chunks(config, context, sql, self._tables.unseen)
            self._chunks.begin(progress)
        self._maker: PlanMaker | None = None

    def _drop(self, progress: Progress, plan: Plan) -> None:
        """Have the tables of a plan read again: what it says of transactions is not so on this server."""
        tables, prefix = self._tables, self._config.prefix
        log.warning("%s: the server took over before a plan was made: its tables are read again", prefix)
        self.due.update(removal(progress))
        if self._config.has_snapshot:
            self.due.update(plan.table_offsets(prefix))
        for oid in tables.planned:
            self.due.update(again_offset(prefix, oid, 0))
        tables.again.update(dict.fromkeys(tables.planned, 0))
        tables.known |= tables.planned
        tables.plan = None

    def meet(self, oid: int, *, has_signals: bool = False) -> None:
        """Take note of a captured table that the stream shows."""
        tables = self._tables
        if has_signals or oid == tables.signals:  # it may have another name now
            tables.signals = oid if has_signals else None
        self._know(oid)

    def _know(self, oid: int) -> None:
        tables = self._tables
        tables.captured.add(oid)
        if not self._config.has_snapshot:
            tables.known.add(oid)
        elif oid not in tables.known and oid not in tables.planned and oid not in tables.wanted:
            tables.wanted.add(oid)
            tables.retry_s = 0.0

    def signal(self, values: Sequence[str | None], lsn: int) -> None:
        """Do what a signal asks for. One that is received again asks for nothing more than before."""
        tables, captured = self._tables, cache(self._captured)
        for name in asked_for(values, captured):
            self._know(oid := captured()[name])
            if oid in tables.planned and tables.plan is not None and lsn < tables.plan.lsn:
                continue
            log.info("%s: the rows of table %s are read again, as a signal asks", self._config.prefix, name)
            tables.again[oid] = lsn
            tables.retry_s = 0.0
            self.due.update(again_offset(self._config.prefix, oid, lsn))

    def _captured(self) -> dict[str, int]:
        """Return the oids of the captured tables, by name."""
        return {f"{table.schema}.{table.name}": table.oid for table in Capture.of(self._sql, self._config).tables}

    @property
    def signals(self) -> int | None:
        return self._tables.signals

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
        waiting = maker.oids & self._tables.wanted
        return not waiting.isdisjoint(oids) and not isinstance(message, pgoutput.Relation)

    def is_written(self, oid: int, begin: pgoutput.Begin) -> bool:
        """Say whether a change of a captured table is written."""
        tables, maker = self._tables, self._maker
        is_written, plan = oid in tables.known, tables.plan if oid in tables.planned else None
        if plan is not None and begin.final_lsn >= plan.lsn:
            is_written = True
        if (is_written and plan is not None) or (maker is not None and oid in maker.oids):
            tables.unseen.add(begin.xid)
        return is_written

    def advance(self) -> None:
        """Begin to make a plan, or take one that is made. Called between messages."""
        tables, maker = self._tables, self._maker
        if len(tables.unseen) > _MANY:
            tables.unseen &= _running(self._sql)
        if maker is not None and not maker.is_running:
            self._maker, tables.retry_s = None, 0.0 if maker.plan is not None else time.monotonic() + _RETRY_S
            if maker.plan is not None:
                self._take(maker, maker.plan)
        elif maker is None and tables.plan is None and tables.missing and time.monotonic() >= tables.retry_s:
            tables.unseen.clear()
            self._maker = PlanMaker(self._config, tables.missing, log_end(self._sql))

    def _take(self, maker: PlanMaker, plan: Plan) -> None:
        tables, prefix = self._tables, self._config.prefix
        tables.wanted -= maker.oids
        tables.plan = plan
        tables.captured -= maker.oids - tables.planned
        self.due.update(plan.offsets(prefix))
        for oid in [each for each, lsn in tables.again.items() if each in tables.planned and lsn < plan.lsn]:
            del tables.again[oid]
            self.due.update(again_offset(prefix, oid, None))
        self._chunks = _Chunks(self._config, self._context, self._sql, tables.unseen)

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

    def turn(self, committed_lsn: int) -> Turn | None:
        """Return what is to be written of chunks, or None. Every other call returns None, for the stream's sake.

        Called only while the open Kafka transaction has nothing of the stream's. `committed_lsn` is where the stream
        begins after a kill.
        """
        plan, chunks = self._tables.plan, self._chunks
        if plan is None or chunks is None or (self._tables.is_again and committed_lsn < plan.lsn):
            return None
        found = chunks.turn()
        if found is not None:
            self._tables.again.update((oid, 0) for oid in read_again(found.offsets))
        if found is None and chunks.is_over and committed_lsn >= plan.lsn:
            progress = self._committed()
            if next(progress.unread(), None) is not None:  # without transactions, rows may still be on their way
                return None
            self._chunks = None
            whole = plan.table_offsets(self._config.prefix) if self._config.has_snapshot else {}
            return Turn(offsets={**whole, **removal(progress)}, ends=True)
        return found

    def committed(self) -> None:
        """Learn that offsets were committed."""
        tables, progress = self._tables, self._committed()
        tables.known |= progress.tables
        if progress.plan is not None and self._chunks is not None:
            self._chunks.begin(progress)
        elif progress.plan is None and self._chunks is None:
            tables.plan = None

    def close(self) -> None:
        self._end_maker()
        if self._chunks is not None:
            self._chunks.close()


class _Chunks:
    """Reads the chunks of a plan that is committed, one after the other."""

    def __init__(self, config: SourceSettings, context: SourceTaskContext, sql: Any, unseen: set[int]) -> None:
        """`unseen` are the transactions that have to be visible before a chunk is read."""
        self._config, self._context, self._sql, self._unseen = config, context, sql, unseen
        self._reading: ChunkReading | None = None
        self._is_open = False
        self._has_waited = False
        self._again_s = 0.0

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
        if self._unseen:
            self._unseen &= _running(self._sql)
        return not self._unseen


def _running(connection: Any) -> set[int]:
    """Return all transactions that may be invisible: each holds a lock of its own until after it is visible."""
    return {int(xid) for (xid,) in connection.execute(_RUNNING).fetchall()}
