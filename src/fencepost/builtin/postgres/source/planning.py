"""The stage before the snapshot: publication, slot, and the plan of the chunks.

1. Commit the intent to make the slot. A slot of that name that is there before belongs to somebody else, and is left.
2. Make the publication, if asked to, and the slot, which exports the snapshot of its first position.
3. Commit the plan: all tables as that snapshot has them, and who was committed for it.

A process that dies between 1 and 3 may leave a slot: the next one looks at it, commits the intent again, drops it, and
goes on at 2. That commit fails for a zombie. What is dropped after it is the slot that was seen before it, and not one
that a successor has made since: that one is at a later position. No chunk is read before a plan is committed.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from fencepost.api import FatalError, RetriableError, SourceTaskContext
from fencepost.builtin.postgres.source.progress import (
    Offsets,
    Phase,
    Plan,
    Position,
    Progress,
    Server,
    TablePlan,
    intent,
    position_offset,
)
from fencepost.builtin.postgres.source.publishing import Capture, ensure_publication
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.builtin.postgres.source.snapshot import import_snapshot
from fencepost.builtin.postgres.source.turn import NOTHING, Turn
from fencepost.postgres.catalog import Table
from fencepost.postgres.connection import connect
from fencepost.postgres.slots import (
    CreatedSlot,
    SlotState,
    create_slot,
    drop_slot,
    ensure_usable,
    slot_state,
)

log = logging.getLogger(__name__)

_SLOT_S = 120.0


class Planning:
    """Makes what the snapshot needs, step by step. Each step is committed before the next one begins."""

    def __init__(self, config: SourceSettings, context: SourceTaskContext, progress: Progress) -> None:
        self._config, self._context = config, context
        self._step: Callable[[], Turn] = self._begin if progress.phase is Phase.BEGIN else self._look
        self._seen: SlotState | None = None
        self._is_waiting = False
        self._holder: Any = None
        self._open: list[Any] = []
        self.is_over = False

    def turn(self) -> Turn:
        if self._is_waiting or self._config.part:
            self._context.wait(0.1)
            return NOTHING
        try:
            turn = self._step()
        finally:
            self._close_all()
        self._is_waiting = True
        return turn

    def committed(self, offsets: Offsets) -> None:
        self._is_waiting = False
        self.is_over = self._step == self._plan or not self._config.has_snapshot
        self._step = self._plan

    def take_holder(self) -> Any:
        """Return the connection that keeps the snapshot while it is open."""
        holder, self._holder = self._holder, None
        return holder

    def reset(self) -> None:
        self._close_all()
        self._is_waiting = False
        self._step = self._begin if self._step == self._begin else self._look
        if self._holder is not None:
            self._holder.close()
            self._holder = None

    def close(self) -> None:
        self.reset()

    def _begin(self) -> Turn:
        config = self._config
        connection = self._connected()
        _ensure_logical(connection)
        state = slot_state(connection, config.slot_name)
        if config.has_snapshot and state is not None:
            raise FatalError(
                f"slot {config.slot_name} exists, but this connector has no position in it; it may be another's. "
                f"If nobody needs it, drop it (SELECT pg_drop_replication_slot('{config.slot_name}')); to continue "
                f"from it, take over its offsets; else set {type(config).key_of('slot_name')} to another name"
            )
        if not config.has_snapshot:
            return self._without_snapshot(connection, exists=state is not None)
        return Turn(offsets=intent(config.prefix, config.slot_name), ends=True)

    def _look(self) -> Turn:
        """Look at the slot that a process has left, before a commit that says that this one is no zombie."""
        self._seen = slot_state(self._connected(), self._config.slot_name)
        return Turn(offsets=intent(self._config.prefix, self._config.slot_name), ends=True)

    def _without_snapshot(self, connection: Any, *, exists: bool) -> Turn:
        """Return the position from which changes are streamed if no rows are read: the slot's, which may be new."""
        config = self._config
        ensure_publication(connection, config)
        replication = self._connected(replication=True)
        if exists:
            lsn = ensure_usable(connection, config.slot_name).confirmed_flush_lsn or 0
        else:
            made = create_slot(replication, config.slot_name, failover=config.slot_failover, timeout_s=_SLOT_S)
            lsn = made.consistent_lsn
        return Turn(offsets=position_offset(config.prefix, Position(lsn, server=Server.at(replication))), ends=True)

    def _plan(self) -> Turn:
        config = self._config
        connection = self._connected()
        if self._seen is not None:
            drop_slot(connection, config.slot_name, self._seen)
        ensure_publication(connection, config)
        holder = self._connected(replication=True)
        server = Server.at(holder)
        plan = plan_of(connection, config, self._made(holder), server)
        self._open.remove(holder)
        self._holder = holder
        log.info("%s: snapshot of %d tables in %d chunks", config.prefix, len(plan.tables), plan.chunks)
        return Turn(offsets=plan.offsets(config.prefix), ends=True)

    def _made(self, holder: Any) -> CreatedSlot:
        from psycopg.errors import DuplicateObject

        config = self._config
        try:
            return create_slot(
                holder,
                config.slot_name,
                export_snapshot=True,
                failover=config.slot_failover and config.has_stream,
                temporary=not config.has_stream,
                timeout_s=_SLOT_S,
            )
        except DuplicateObject as error:  # of a zombie, or of a successor, which the next commit tells
            raise RetriableError(f"slot {config.slot_name} was made meanwhile, and is looked at again") from error

    def _connected(self, *, replication: bool = False) -> Any:
        connection = connect(self._config.connection_settings(), replication=replication)
        self._open.append(connection)
        return connection

    def _close_all(self) -> None:
        for connection in self._open:
            connection.close()
        self._open = []


def plan_of(
    connection: Any, config: SourceSettings, made: CreatedSlot, server: Server, oids: Collection[int] | None = None
) -> Plan:
    """Return the plan of the captured tables, or of those with these oids, in the snapshot that a new slot exports."""
    import_snapshot(connection, str(made.snapshot))
    (xids,) = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    capture = Capture.of(connection, config)
    tables = tuple(_cut(connection, capture if oids is None else capture.only(oids), config.chunk_bytes))
    connection.execute("COMMIT")
    return Plan(made.consistent_lsn, xids, str(made.snapshot), server, tables)


def _cut(connection: Any, capture: Capture, chunk_bytes: int) -> Iterable[TablePlan]:
    """Yield the tables of a snapshot, with chunks of about a size."""
    for stored, shown in capture.stored():
        (size,) = connection.execute(f"SELECT pg_table_size({stored.oid})").fetchone()
        pages = max(stored.pages, 1)
        chunk_pages = max(1, min(chunk_bytes // 8192, int(chunk_bytes * pages / max(size, 1))))
        yield TablePlan(stored.oid, shown.oid, _named(stored), stored.filenode or 0, stored.pages, chunk_pages)


def _named(table: Table) -> str:
    return f"{table.schema}.{table.name}"


def _ensure_logical(connection: Any) -> None:
    (level,) = connection.execute("SHOW wal_level").fetchone()
    if level != "logical":
        raise FatalError(
            f"the server has wal_level={level}, with which it sends no changes: set wal_level=logical in its "
            "configuration, restart it, and restart this connector"
        )
