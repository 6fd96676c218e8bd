"""Where a database and topics are compared: at one place, though both move."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from fencepost.api import FatalError
from fencepost.builtin.postgres.audit.snapshot import DatabaseSnapshot, Visible
from fencepost.builtin.postgres.audit.table import ComparedTable
from fencepost.builtin.postgres.audit.target import TargetSide
from fencepost.ledger.topic_rows import TopicRows
from fencepost.postgres import format_lsn
from fencepost.record import TopicPartition

_AGAIN_S = 0.2


class Reached(NamedTuple):
    """A place: up to where topics are read, which transactions count, and which tables (by oid) are in the topics.

    None: all of them.
    """

    ends: Mapping[TopicPartition, int]
    visible: Visible | None = None
    tables: frozenset[int] | None = None
    notes: Sequence[str] = ()


class Position(Protocol):
    """Finds the place, for one audit."""

    def first(
        self, snapshot: DatabaseSnapshot, read: TopicRows, tables: Sequence[ComparedTable]
    ) -> Mapping[TopicPartition, int]:
        """Return up to where topics can be read before the snapshot is taken, which is open for a shorter time then."""

    def begin(self, snapshot: DatabaseSnapshot, read: TopicRows) -> None:
        """Take the snapshot, which shows what was read at least. Raises FatalError."""

    def reached(self, snapshot: DatabaseSnapshot, read: TopicRows, tables: Sequence[ComparedTable]) -> Reached | str:
        """Return the place of the snapshot, or why it is not known in time."""


class Committed(NamedTuple):
    """What committed offsets say: up to where the log is in Kafka, and the tables whose rows are, by oid; None: all."""

    lsn: int
    tables: frozenset[int] | None = None


class LogPosition:
    """The place of a source: the end of the database's log after the snapshot.

    Once the connector has committed everything up to there, records of transactions that the snapshot does not show
    are left out.
    """

    def __init__(self, connector: str, committed: Callable[[], Committed], wait_s: float) -> None:
        """`committed` returns what the connector's offsets say. `wait_s` is for that, and for open transactions."""
        self._connector, self._committed, self._wait_s = connector, committed, wait_s

    def first(
        self, snapshot: DatabaseSnapshot, read: TopicRows, tables: Sequence[ComparedTable]
    ) -> Mapping[TopicPartition, int]:
        return read.ends(tables)

    def begin(self, snapshot: DatabaseSnapshot, read: TopicRows) -> None:
        """Take a snapshot that shows everything that was read: a transaction is in the log before others see it."""
        until_s = time.monotonic() + self._wait_s
        while True:
            snapshot.begin()
            if read.are_visible(snapshot.visible):
                return
            if time.monotonic() > until_s:
                raise FatalError("a transaction is in the topics that the database does not show yet: repeat the audit")
            snapshot.end()
            time.sleep(_AGAIN_S)

    def reached(self, snapshot: DatabaseSnapshot, read: TopicRows, tables: Sequence[ComparedTable]) -> Reached | str:
        until_s = time.monotonic() + self._wait_s
        while (committed := self._committed()).lsn < snapshot.lsn:
            if time.monotonic() > until_s:
                return (
                    f"{self._connector} has not committed what the database had at {format_lsn(snapshot.lsn)} within "
                    f"{self._wait_s:g} s: see whether it runs, or wait longer (--wait)"
                )
            time.sleep(_AGAIN_S)
        ends = read.awaited_ends(tables, self._wait_s)
        if ends is None:
            return "a transaction is open in a topic, and hides its last records: repeat the audit"
        return Reached(ends, snapshot.visible, committed.tables)


class StoredPosition:
    """The place of a sink: the offsets that it has committed with its rows, as the snapshot has them."""

    def __init__(self, side: TargetSide) -> None:
        self._side = side
        self._notes: Sequence[str] = ()

    def first(
        self, snapshot: DatabaseSnapshot, read: TopicRows, tables: Sequence[ComparedTable]
    ) -> Mapping[TopicPartition, int]:
        return self._within(snapshot, read, tables)

    def begin(self, snapshot: DatabaseSnapshot, read: TopicRows) -> None:
        snapshot.begin()

    def reached(self, snapshot: DatabaseSnapshot, read: TopicRows, tables: Sequence[ComparedTable]) -> Reached | str:
        return Reached(self._within(snapshot, read, tables), notes=self._notes)

    def _within(
        self, snapshot: DatabaseSnapshot, read: TopicRows, tables: Sequence[ComparedTable]
    ) -> dict[TopicPartition, int]:
        logs = read.ends(tables)
        stored = {place: end for place, end in self._side.ends(snapshot, read).items() if place in logs}
        self._notes = [
            f"{place.topic}-{place.partition} ends at offset {logs[place]}, but the sink's offset is {end}"
            for place, end in stored.items()
            if end > logs[place]
        ]
        return {place: min(end, logs[place]) for place, end in stored.items()}
