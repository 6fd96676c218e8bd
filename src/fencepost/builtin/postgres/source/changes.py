"""Puts the messages of pgoutput together: records, whole transactions at a time.

Protocol 1 sends a transaction after its commit, without others in between. One that was committed to Kafka already is
skipped: the server sends everything from the slot's position on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fencepost.api import SourceRecord
from fencepost.builtin.postgres.source.progress import Position
from fencepost.postgres import pgoutput


@dataclass(frozen=True)
class ChangePlace:
    """Where a change is: its own LSN, and its transaction."""

    lsn: int
    begin: pgoutput.Begin
    last_commit_lsn: int


class Writer(Protocol):
    """Makes records of changes."""

    def relation(self, relation: pgoutput.Relation) -> None:
        """Learn the form of a table from here on."""

    def begin(self, place: ChangePlace) -> Sequence[SourceRecord]: ...

    def end(self, place: ChangePlace) -> Sequence[SourceRecord]: ...

    def change(self, change: Any, place: ChangePlace) -> Sequence[SourceRecord]:
        """Return the records of a change: none if its table, or this kind of change, is not captured."""


_CHANGES = (pgoutput.Insert, pgoutput.Update, pgoutput.Delete, pgoutput.Truncate, pgoutput.Message)


class Changes:
    """Holds the records of whole transactions, and of the one that is being received."""

    def __init__(self, writer: Writer, position: Position) -> None:
        self._writer = writer
        self._start = position
        self.position = position
        """The end of the last whole transaction that was received."""
        self.whole: list[SourceRecord] = []
        self.part: list[SourceRecord] = []
        self.part_count = 0
        """How many changes of the open transaction were received."""
        self._begin: pgoutput.Begin | None = None
        self._is_skipped = False

    @property
    def is_between(self) -> bool:
        """Say whether no transaction is being received."""
        return self._begin is None

    def feed(self, lsn: int, message: Any) -> None:
        """Take the next message; `lsn` is that of its change."""
        match message:
            case pgoutput.Begin():
                self._begin, self.part_count = message, 0
                self._is_skipped = message.final_lsn < self._start.lsn
                if not self._is_skipped:
                    self.part += self._writer.begin(self._place(lsn))
            case pgoutput.Relation():
                self._writer.relation(message)
            case pgoutput.Commit():
                self._commit(message)
            case pgoutput.Message() if not message.transactional:
                pass
            case _ if isinstance(message, _CHANGES) and not self._is_skipped:
                self.part_count += 1
                if not self._is_written(lsn):
                    self.part += self._writer.change(message, self._place(lsn))

    def move_to(self, lsn: int) -> None:
        """Take it that nothing up to a place is to come, as the server says while no transaction is being received."""
        if lsn > self.position.lsn and self.is_between:
            self.position = self._start = replace(self.position, lsn=lsn, index=0, processed_lsn=None)

    def take_whole(self) -> list[SourceRecord]:
        taken, self.whole = self.whole, []
        return taken

    def take_part(self) -> list[SourceRecord]:
        taken, self.part = self.part, []
        return taken

    def _commit(self, message: pgoutput.Commit) -> None:
        begin, is_skipped = self._begin, self._is_skipped
        if begin is None:
            return
        if not is_skipped:
            self.part += self._writer.end(self._place(message.end_lsn))
            self.position = replace(
                self.position,
                lsn=message.end_lsn,
                xid=begin.xid,
                time_us=message.commit_time_us,
                index=0,
                processed_lsn=None,
            )
            self._start = self.position
        self._begin, self._is_skipped = None, False
        self.whole += self.take_part()

    def _is_written(self, lsn: int) -> bool:
        """Say whether a change of the first transaction is in Kafka, by Debezium's offset, or by ours after a split."""
        start = self._start
        return self.part_count <= start.index or (start.processed_lsn is not None and lsn <= start.processed_lsn)

    def _place(self, lsn: int) -> ChangePlace:
        assert self._begin is not None
        return ChangePlace(lsn, self._begin, self.position.lsn)
