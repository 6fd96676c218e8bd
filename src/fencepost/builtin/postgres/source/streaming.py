"""The stage in which changes are streamed from the slot."""

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

from fencepost.api import FatalError, SourceTaskContext, partition_key
from fencepost.builtin.postgres.source.changes import Changes
from fencepost.builtin.postgres.source.joining import Joining
from fencepost.builtin.postgres.source.progress import (
    Offsets,
    Position,
    Progress,
    Server,
    again_offset,
    intent,
    log_end,
    position_offset,
    record_offset,
    removal,
    table_offset,
)
from fencepost.builtin.postgres.source.publishing import ensure_publication
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.builtin.postgres.source.slot_check import server_refusal, slot_refusal
from fencepost.builtin.postgres.source.turn import NOTHING, Turn
from fencepost.builtin.postgres.source.writer import Change, RecordWriter
from fencepost.hook.written import Written
from fencepost.postgres import pgoutput
from fencepost.postgres.connection import connect
from fencepost.postgres.error import is_retriable
from fencepost.postgres.lsn import format_lsn
from fencepost.postgres.replication import KeepAlive, ReplicationStream, WalData
from fencepost.postgres.slots import (
    SlotLostError,
    SlotMissingError,
    SlotNotReadyError,
    ensure_usable,
    is_standby,
    mark_for_failover,
    timeline_end,
)

log = logging.getLogger(__name__)

_READ_S = 0.1
_MOST_MESSAGES = 10_000
_MOST_BYTES = 16 << 20  # of messages, of which records and their JSON take ten times as much
_PART = 5_000
_IDLE_MOVE_S = 5.0

SHARE_OF_TIMEOUT = 0.5
"""For how much of `transaction.timeout.ms` a Kafka transaction takes changes of one database transaction. The rest is
for what is still on its way to the brokers then, and for the commit."""


class _Session:
    """A stream that is open, with what puts its messages together. `sql` is asked about tables."""

    def __init__(
        self,
        sql: Any,
        stream: ReplicationStream,
        config: SourceSettings,
        start: Position,
        log_end: int,
        joining: Joining | None,
        written: Written | None,
    ) -> None:
        self.sql, self.stream, self.joining = sql, stream, joining
        self.writer = RecordWriter(config, sql, joining, written)
        self.changes = Changes(self.writer, start, log_end)
        self.pending: deque[WalData | KeepAlive] = deque()
        self.part_after: int | None = None
        """Where the transaction before the one of which a part was returned ends."""
        self.open_since_s: float | None = None
        """When the first part was returned for the Kafka transaction that is open."""

    def receive(self) -> None:
        """Take all that has arrived, or the first messages that come: the further behind, the larger the transactions.

        One read returns a few hundred messages at most, and a transaction of Kafka costs the brokers as much as
        thousands of records.
        """
        if self.joining is not None:
            self.joining.advance()
        if self.pending:
            self.stream.keep_alive()
        wait_s, left, left_bytes = _READ_S, _MOST_MESSAGES, _MOST_BYTES
        while self._feed() and left > 0 and left_bytes > 0 and (found := self.stream.read(wait_s, left)):
            self.pending.extend(found)
            wait_s, left = 0.0, left - len(found)
            left_bytes -= sum(len(one[2]) for one in found if not isinstance(one, KeepAlive))

    def _feed(self) -> bool:
        """Take messages that have arrived. Returns False if one of them has to wait for the plan of its table.

        Nothing waits while a transaction of Kafka is open: a plan may take minutes, and that would time out.
        """
        joining = self.joining if self.joining is not None and self.joining.is_planning else None
        while self.pending:
            one = self.pending[0]
            if not isinstance(one, KeepAlive):
                message = pgoutput.decode(one[2])
                if joining is not None and joining.is_undecided(message, self.changes.commit_lsn):
                    if self.open_since_s is None:
                        return False
                    joining.give_up()
                self.changes.feed(one[0], message)
                if self.joining is not None and self.joining.signals is not None:  # each asks the database
                    self.stream.keep_alive()
            elif self.changes.is_between:
                self.changes.idle_lsn = one.wal_end
            self.pending.popleft()
        return True

    def turn_of_joining(self, committed_lsn: int) -> Turn | None:
        """Return a part of the rows of tables that joined, if nothing of the stream's is in the open transaction."""
        if self.joining is None or self.open_since_s is not None:
            return None
        self.stream.keep_alive()
        return self.joining.turn(committed_lsn)

    def take_due(self) -> Offsets:
        return {} if self.joining is None else self.joining.take_due()

    def close(self) -> None:
        if self.joining is not None:
            self.joining.close()
        self.stream.close()
        self.sql.close()


class Streaming:
    """Streams from a position on. What was not returned as part of a committed transaction is received again."""

    def __init__(self, config: SourceSettings, context: SourceTaskContext, progress: Callable[[], Progress]) -> None:
        """`progress` returns what the committed offsets say, at any time."""
        self._config, self._context, self._progress = config, context, progress
        start = progress().start
        assert start is not None
        self._committed = start
        self.is_over = False
        self._session: _Session | None = None
        first = _first(config.prefix, progress())
        self._ready = deque([Turn(offsets=first, ends=True)] if first else [])
        self._moved_s = self._beat_s = time.monotonic()

    def turn(self) -> Turn:
        if self._ready:
            return self._ready.popleft()
        if self.is_over:
            self._context.wait(0.1)
            return NOTHING
        if self._session is None:
            try:
                self._session = self._opened()
            except (SlotMissingError, SlotLostError) as error:
                if not self._config.repeats_snapshot:
                    raise
                log.warning("%s: all rows are read again: %s", self._config.prefix, error)
                self.is_over = True
                return Turn(offsets=self._again(), ends=True)
        turn = self._session.turn_of_joining(self._committed.lsn)
        if turn is not None:
            return turn
        self._session.receive()
        return self._next(self._session)

    def committed(self, offsets: Offsets) -> None:
        """Let the server forget what is in Kafka now."""
        stored = offsets.get(partition_key({"server": self._config.prefix}))
        position = None if stored is None else Position.of_offset(stored)
        if position is not None:
            self._committed = position
        if self._session is not None:
            if self._session.joining is not None and len(offsets) > (position is not None):
                self._session.joining.committed()
            try:
                self._session.stream.confirm(self._committed.lsn)
            except Exception as error:
                if not is_retriable(error):
                    raise
                log.warning(
                    "%s: the position is confirmed once the stream is read again: %s", self._config.prefix, error
                )
                self.reset()

    def reset(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
        self._ready.clear()

    def close(self) -> None:
        self.reset()

    def _next(self, session: _Session) -> Turn:
        """Return whole transactions, or a part of a large one; now and then also the position of idle tables."""
        changes = session.changes
        has_ended = session.part_after is not None and changes.position.lsn > session.part_after
        records: list[Change] = changes.take_whole()
        now_s, beat_s = time.monotonic(), self._config.heartbeat_interval_ms / 1000
        is_beat = changes.is_between and 0 < beat_s <= now_s - self._beat_s
        is_due = is_beat or (changes.is_between and now_s - self._moved_s >= _IDLE_MOVE_S)
        if is_due:
            self._moved_s = now_s
            changes.move_to(changes.idle_lsn)
        if is_beat:
            self._beat_s = now_s
            records += session.writer.heartbeat()
        has_moved = is_due and changes.position.lsn > self._committed.lsn
        if has_ended or records or has_moved:
            session.part_after = session.open_since_s = None
            offsets = position_offset(self._config.prefix, changes.position)  # the last, if each is written by itself
            return self._turn(session, records, session.take_due() | offsets)
        if session.open_since_s is None and (due := session.take_due()):
            return Turn(offsets=due, ends=True)
        if self._is_too_large(session):
            return self._split(session)
        if len(changes.part) < _PART or session.pending:  # a change that waits does so before Kafka's transaction
            return NOTHING
        session.part_after = changes.position.lsn
        session.open_since_s = session.open_since_s or time.monotonic()
        return self._turn(session, changes.take_part())

    def _turn(self, session: _Session, changes: list[Change], offsets: Offsets | None = None) -> Turn:
        """Return the first of the turns that return these changes; the last one commits offsets, if there are any."""
        turns = [Turn(batch) for batch in session.writer.batches(changes)] or [Turn()]
        if offsets is not None:
            turns[-1] = replace(turns[-1], offsets=offsets, ends=True)
        self._ready.extend(turns[1:])
        return turns[0]

    def _is_too_large(self, session: _Session) -> bool:
        timeout_s, since_s = self._context.transaction_timeout_s, session.open_since_s
        if timeout_s is None or since_s is None or not session.changes.can_split:
            return False
        return time.monotonic() - since_s >= SHARE_OF_TIMEOUT * timeout_s

    def _split(self, session: _Session) -> Turn:
        """End the Kafka transaction within a transaction of the database. Raises FatalError if that is not wanted."""
        config, timeout_s = self._config, self._context.transaction_timeout_s
        records, position = session.changes.split()
        if config.transaction_too_large.lower() != "split":
            raise FatalError(
                f"transaction {position.xid} of the database is too large for one of Kafka: {position.index} changes "
                f"took {SHARE_OF_TIMEOUT:.0%} of the {timeout_s:g} s that a Kafka transaction may last, and more are "
                "to come. Raise producer.override.transaction.timeout.ms (the brokers' transaction.max.timeout.ms "
                f"bounds it), or set {type(config).key_of('transaction_too_large')}=split to write it in parts"
            )
        log.info("%s: %d changes of transaction %s are a part", config.prefix, position.index, position.xid)
        session.open_since_s = None
        return self._turn(session, records, session.take_due() | position_offset(config.prefix, position))

    def _again(self) -> Offsets:
        """Return the offsets that begin with a new snapshot."""
        config = self._config
        progress = self._progress()
        none = dict.fromkeys(position_offset(config.prefix, self._committed))
        for oid in progress.again:
            none.update(again_offset(config.prefix, oid, None))
        for oid in progress.tables:
            none.update(dict.fromkeys(table_offset(config.prefix, oid, "")))
        return {**removal(progress), **none, **intent(config.prefix, config.slot_name)}

    def _opened(self) -> _Session:
        """Connect, and continue from what is committed. Raises FatalError if server or slot cannot do that.

        The server is judged before its slot: a former primary that has none is not asked for a new snapshot.
        """
        config = self._config
        with ExitStack() as opened:
            sql = opened.enter_context(closing(connect(config.connection_settings())))
            replication = opened.enter_context(closing(connect(config.connection_settings(), replication=True)))
            server = Server.at(replication)
            end, is_copy = log_end(sql), is_standby(sql)
            known = self._committed.server.timeline
            fork = timeline_end(replication, known) if 0 < known < server.timeline else None
            _refuse(server_refusal(self._committed, server, None if is_copy else end, fork))
            if config.slot_failover and is_copy:
                raise SlotNotReadyError(
                    f"{config.hostname} is a standby: the slot can be read there once it is promoted"
                )
            state = ensure_usable(sql, config.slot_name)
            _refuse(slot_refusal(self._committed, state))
            if config.slot_failover and not state.failover:
                mark_for_failover(replication, config.slot_name)
            ensure_publication(sql, config)
            is_asked = config.signal_data_collection is not None
            joining = (
                Joining(config, self._context, sql, self._progress, lambda plan: fork is not None and plan.lsn > fork)
                if config.has_snapshot or is_asked
                else None
            )
            lsn = self._committed.lsn
            stream = ReplicationStream(replication, config.slot_name, config.publication_name, lsn)
            opened.pop_all()
        self._committed = replace(self._committed, server=server)
        log.info("%s: streaming from %s on", config.prefix, format_lsn(lsn))
        look = getattr(self._context, "written", None)
        return _Session(sql, stream, config, self._committed, end, joining, None if look is None else look())


def _refuse(why: str | None) -> None:
    if why is not None:
        raise FatalError(why)


def _first(prefix: str, progress: Progress) -> Offsets:
    """Return the offsets that a stream commits before anything else: those that end the snapshot before it.

    Without transactions they are written one by one, in this order: if the last are missing, it is done again.
    """
    if progress.start is None or progress.position is not None:
        return {} if progress.plan is not None else removal(progress)
    tables = {} if progress.plan is None else progress.plan.table_offsets(prefix)
    return {**tables, **record_offset(prefix), **position_offset(prefix, progress.start), **removal(progress)}
