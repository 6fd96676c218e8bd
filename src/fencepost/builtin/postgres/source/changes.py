"""Puts the messages of pgoutput together: records, whole transactions at a time.

Protocol 1 sends a transaction after its commit, without others in between. One that was committed to Kafka already is
skipped: the server sends everything from the slot's position on. Of one that was split, the changes that are in Kafka
are made into records again, so that all are counted, and left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fencepost.api import FatalError, SourceRecord
from fencepost.builtin.postgres.source.progress import Position
from fencepost.postgres import pgoutput
from fencepost.postgres.lsn import format_lsn


@dataclass(frozen=True)
class ChangePlace:
    """Where a change is: its own LSN, and its transaction, of which `earlier` changes are in parts before."""

    lsn: int
    begin: pgoutput.Begin
    last_commit_lsn: int
    earlier: int = 0


class Writer(Protocol):
    """Makes records of changes."""

    def relation(self, relation: pgoutput.Relation) -> None:
        """Learn the form of a table from here on."""

    def begin(self, place: ChangePlace) -> Sequence[SourceRecord]: ...

    def end(self, place: ChangePlace) -> Sequence[SourceRecord]: ...

    def change(self, change: Any, place: ChangePlace) -> Sequence[Any]:
        """Return the records of a change, or what becomes them: none if its table, or its kind, is not captured."""

    def message(self, message: pgoutput.Message, lsn: int, last: Position) -> Sequence[SourceRecord]:
        """Return the record of a message in no transaction: none if it is left out. `last` is the position before."""

    def without_written(self, changes: Sequence[Any]) -> Sequence[Any]:
        """Return what `change` has returned without the records that are in their topics."""


_CHANGES = (pgoutput.Insert, pgoutput.Update, pgoutput.Delete, pgoutput.Truncate, pgoutput.Message)


@dataclass
class _Open:
    """The transaction that is being received: how many changes, the last one's LSN, how many are in parts before.

    `at_lsn` is how many of them are rows at that LSN: a record of the log may have many, and a message ends where the
    next record begins, so that it comes before the rows of its LSN.
    """

    begin: pgoutput.Begin
    is_skipped: bool
    earlier: int
    count: int = 0
    lsn: int = 0
    at_lsn: int = 0

    def add(self, lsn: int, *, is_row: bool) -> None:
        self.at_lsn = (self.at_lsn if lsn == self.lsn else 0) + is_row
        self.count, self.lsn = self.count + 1, lsn


class Changes:
    """Holds the records of whole transactions, and of the one that is being received."""

    def __init__(self, writer: Writer, position: Position, log_end: int) -> None:
        """`log_end` is where the log of the server ends now, before anything is received."""
        self._writer = writer
        self._start = position
        self._log_end = log_end
        self.position = position
        """The end of the last whole transaction, or message in none, that was received."""
        self.whole: list[Any] = []
        self.part: list[Any] = []
        self.idle_lsn = 0
        """Up to where the server has said that nothing is to come."""
        self._open: _Open | None = None

    @property
    def is_between(self) -> bool:
        """Say whether no transaction is being received."""
        return self._open is None

    @property
    def commit_lsn(self) -> int:
        """Return where the transaction that is being received was committed; 0 if there is none."""
        return 0 if self._open is None else self._open.begin.final_lsn

    @property
    def can_split(self) -> bool:
        """Say whether changes of the open transaction were received that are in no part before."""
        return self._open is not None and self._open.count > self._open.earlier

    def feed(self, lsn: int, message: Any) -> None:
        """Take the next message; `lsn` is that of its change."""
        match message:
            case pgoutput.Begin():
                self._open = _Open(message, message.final_lsn < self._start.lsn, self._start.index)
                if not self._open.is_skipped:
                    begun = self._writer.begin(self._place(self._open, lsn))
                    self.part += () if self._start.is_within(message.xid) else begun
            case pgoutput.Relation():
                self._writer.relation(message)
            case pgoutput.Commit():
                self._commit(message)
            case pgoutput.Message() if not message.transactional:
                self._message(lsn, message)
            case _ if isinstance(message, _CHANGES) and self._open is not None and not self._open.is_skipped:
                self._open.add(lsn, is_row=not isinstance(message, pgoutput.Message))
                records = self._writer.change(message, self._place(self._open, lsn))
                self.part += self._unwritten(self._open, records)

    def move_to(self, lsn: int) -> None:
        """Take it that nothing up to a place is to come, as the server says while no transaction is being received.

        It may say so while a transaction of which a part is in Kafka is still to come, from its first change on.
        Whether there is one, an offset of Debezium's does not always say; it was committed before the log's end.
        """
        start = self._start
        has_come = start.processed_lsn is None or (not start.index and lsn >= self._log_end)
        if lsn > self.position.lsn and self.is_between and has_come:
            self.position = self._start = replace(self.position, lsn=lsn, processed_lsn=None, processed_count=1)

    def take_whole(self) -> list[Any]:
        taken, self.whole = self.whole, []
        return taken

    def take_part(self) -> list[Any]:
        taken, self.part = self.part, []
        return taken

    def split(self) -> tuple[list[Any], Position]:
        """Take what there is of the open transaction, and the position that says that it is in Kafka."""
        assert self._open is not None
        one, begin = self._open, self._open.begin
        one.earlier = one.count
        position = replace(
            self.position,
            xid=begin.xid,
            time_us=begin.commit_time_us,
            index=one.count,
            processed_lsn=one.lsn,
            processed_count=one.at_lsn,
        )
        return self.take_part(), position

    def _message(self, lsn: int, message: pgoutput.Message) -> None:
        """Take a message that is in no transaction, and move the position to it, so that it does not come again.

        It comes when the server reads it in the log: all that was committed before has come, and what comes later is
        committed after it. So does a transaction of which a part is in Kafka, whose place is kept.
        """
        if lsn > self._start.lsn:
            self.whole += self._writer.message(message, lsn, self.position)
            self.position = self._start = replace(self.position, lsn=lsn)

    def _commit(self, message: pgoutput.Commit) -> None:
        one, self._open = self._open, None
        if one is None:
            return
        if not one.is_skipped:
            if one.count < self._start.index:
                raise FatalError(self._not_the_same(f"it has {one.count} changes"))
            self.part += self._writer.end(self._place(one, message.end_lsn))
            self.position = replace(
                self.position,
                lsn=message.end_lsn,
                xid=one.begin.xid,
                time_us=message.commit_time_us,
                index=0,
                processed_lsn=None,
                processed_count=1,
            )
            self._start = self.position
        self.whole += self.take_part()

    def _unwritten(self, one: _Open, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        """Return the records of a change of the first transaction that are not in Kafka.

        Debezium's offset does not say how many of the changes at its LSN are there (up to 3.6), or how many of the last
        one's records: the topics do.
        """
        start = self._start
        if not start.index:
            if start.processed_lsn is None or one.begin.xid != start.xid or one.lsn > start.processed_lsn:
                return records
            if one.lsn < start.processed_lsn:
                return ()
            known = (
                0 if one.at_lsn > start.processed_count else 1 if one.at_lsn == start.processed_count else len(records)
            )
            self._writer.without_written(records[:known])  # those of rows without a key may look like others
            return self._writer.without_written(records[known:])
        if one.count == start.index and one.lsn != start.processed_lsn:
            raise FatalError(self._not_the_same(f"change {start.index} is at {format_lsn(one.lsn)}"))
        return () if one.count <= start.index else records

    def _not_the_same(self, what: str) -> str:
        start = self._start
        return (
            f"the server does not send transaction {start.xid} as it did before: {start.index} of its changes are in "
            f"Kafka, the last one at {format_lsn(start.processed_lsn or 0)}, but now {what}. Was the publication made "
            "again, or another one set? Set it back; or begin again, with a new snapshot"
        )

    def _place(self, one: _Open, lsn: int) -> ChangePlace:
        return ChangePlace(lsn, one.begin, self.position.lsn, one.earlier)
