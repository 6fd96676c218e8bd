"""Compares tables of a database with topics: hashes of groups of rows first, then the rows of the groups that differ.

Nothing is changed, and connector and database may move meanwhile. The order of steps avoids false alarms:

1. Read the topics up to their ends, and keep the last row of each key (`Fold`).
2. Take a snapshot of the database. Its end of the log says how far the connector has to be.
3. Wait until the connector has committed everything up to there, and read on. Of these records, those of transactions
   that the snapshot does not show are left out.
4. Compare the hashes of groups of keys, computed in the database, with those of the topics.
5. Read the rows of the groups that differ, and name the first that do.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fencepost.api import FatalError
from fencepost.builtin.postgres.audit.snapshot import DatabaseSnapshot, Rewritten
from fencepost.builtin.postgres.audit.table import GROUP_DIGITS, ComparedTable, Known
from fencepost.ledger.fold import UNSURE, Entry, Fold
from fencepost.ledger.log import OnPartition
from fencepost.ledger.topic_rows import Decode, Side, TopicRows
from fencepost.postgres import explain, format_lsn
from fencepost.record import TopicPartition

_NAMED = 20  # rows of a table that are named
_LOOKED_AT = 1_000  # rows of a table whose records are read again
_AGAIN_S = 0.2
_NOT_READ = "the connector has not read its rows yet: repeat the audit when it has"


class RowDifferenceKind(Enum):
    """In which way a row of the table differs from the topic's."""

    MISSING_IN_TOPIC = "missing in the topic"
    MISSING_IN_TABLE = "missing in the table"
    DIFFERS = "differs"


class Committed(NamedTuple):
    """What committed offsets say: up to where the log is in Kafka, and the tables whose rows are, by oid; None: all."""

    lsn: int
    tables: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that differs. `place` and `offset` are those of its record; None if there is none."""

    kind: RowDifferenceKind
    table: str
    key: tuple[tuple[str, str], ...]
    columns: tuple[str, ...] = ()
    place: TopicPartition | None = None
    offset: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "table": self.table,
            "key": dict(self.key),
            "columns": list(self.columns),
            "topic": None if self.place is None else self.place.topic,
            "partition": None if self.place is None else self.place.partition,
            "offset": self.offset,
        }

    def __str__(self) -> str:
        key = ", ".join(f"{name}={value}" for name, value in self.key)
        what = f"{self.kind.value} in {', '.join(self.columns)}" if self.columns else self.kind.value
        where = "" if self.place is None else f" ({self.place.topic}-{self.place.partition}, offset {self.offset})"
        return f"{self.table}  {key}: {what}{where}"


@dataclass(slots=True)
class TableFindings:
    """What was found of one table.

    Attributes:
        rows: rows of the database.
        verified: rows that are the same in the topic.
        others: rows that could not be compared, or not in full; `notes` say why.
        differing: rows that differ, of which `differences` names the first.
    """

    table: str
    topic: str
    rows: int = 0
    verified: int = 0
    others: int = 0
    differing: int = 0
    differences: list[RowDifference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return not self.notes

    def differ(self, make: Callable[[], RowDifference]) -> None:
        self.differing += 1
        if len(self.differences) < _NAMED:
            self.differences.append(make())


@dataclass
class DatabaseReport:
    """What the audit of a connector and its database has found. `position` is a place in the database's log."""

    connector: str
    position: str = ""
    tables: list[TableFindings] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def differences(self) -> list[RowDifference]:
        """Return the rows that are named, in the order of their tables."""
        return [each for found in self.tables for each in found.differences]

    @property
    def is_complete(self) -> bool:
        return bool(self.tables) and not self.notes and all(found.is_complete for found in self.tables)


class DatabaseAudit:
    """Reads a source's tables, and its topics."""

    def __init__(
        self,
        conf: Mapping[str, Any],
        connector: str,
        side: Side,
        decode: Decode,
        *,
        committed: Callable[[], Committed],
        wait_s: float = 10.0,
        state: Path | None = None,
    ) -> None:
        """`conf` is made by `range_conf`.

        Args:
            conf: Of the brokers.
            connector: The connector's name.
            side: What its config says.
            decode: Its converters.
            committed: Returns what its committed offsets say.
            wait_s: How long to wait for that, and for open transactions.
            state: A file that keeps what was read of the topics until an audit has ended, so that the next one goes on.
        """
        self._conf, self._connector, self._side, self._decode = conf, connector, side, decode
        self._committed, self._wait_s, self._state = committed, wait_s, state

    def close(self) -> None:
        """Do nothing: a run closes its connections."""

    def run(self, topics: Collection[str] = (), on_read: OnPartition | None = None) -> DatabaseReport:
        """Compare; only the tables of these `topics` if there are any.

        Raises CorruptBatchError, FatalError, RecordError, and what `Admin` raises.
        """
        import psycopg

        try:
            return self._run(topics, on_read)
        except psycopg.Error as error:
            raise FatalError(f"the database cannot be read: {explain(error)}") from error

    def _run(self, topics: Collection[str], on_read: OnPartition | None) -> DatabaseReport:
        report = DatabaseReport(self._connector)
        with ExitStack() as opened:
            snapshot = opened.enter_context(closing(DatabaseSnapshot(self._side.database)))
            read = opened.enter_context(closing(TopicRows(self._conf, self._side, self._decode, on_read)))
            tables = self._tables(snapshot, topics)
            snapshot.end()
            path = self._state or Path(opened.enter_context(TemporaryDirectory(prefix="fencepost-audit-"))) / "rows"
            identity = self._identity(read, tables)
            fold = opened.enter_context(closing(Fold(path, identity)))
            read.read(fold, tables, read.ends(tables))  # 1
            self._begin(snapshot, read)  # 2
            tables = self._tables(snapshot, topics)
            if self._identity(read, tables) != identity:
                raise FatalError("a table or a topic was changed meanwhile: repeat the audit")
            report.position = format_lsn(snapshot.lsn)
            committed = self._await_position(snapshot.lsn)  # 3
            if committed is None:
                report.notes.append(
                    f"{self._connector} has not committed what the database had at {report.position} within "
                    f"{self._wait_s:g} s: see whether it runs, or wait longer (--wait)"
                )
                return report
            ends = read.awaited_ends(tables, self._wait_s)
            if ends is None:
                report.notes.append("a transaction is open in a topic, and hides its last records: repeat the audit")
                return report
            read.read(fold, tables, ends, snapshot.visible)
            for number, table in enumerate(tables):
                if committed.tables is None or table.oid in committed.tables:
                    report.tables.append(self._compared(read, fold, number, table, snapshot))
                else:
                    report.tables.append(TableFindings(table.name, table.topic, notes=[_NOT_READ]))
        if self._state is not None:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._state}{suffix}").unlink(missing_ok=True)
        return report

    def _tables(self, snapshot: DatabaseSnapshot, topics: Collection[str]) -> list[ComparedTable]:
        return [table for table in self._side.tables(snapshot) if not topics or table.topic in topics]

    def _identity(self, read: TopicRows, tables: Sequence[ComparedTable]) -> str:
        """Return a text that is another one if rows have other hashes, or topics were made again."""
        shown = [(t.topic, [(c.name, c.sql, c.stand_in) for c in (*t.key, *t.columns)]) for t in tables]
        return repr((self._connector, shown, read.ids(tables)))

    def _begin(self, snapshot: DatabaseSnapshot, read: TopicRows) -> None:
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

    def _await_position(self, lsn: int) -> Committed | None:
        """Return what was committed once everything up to a place in the log is; None if it is not so in time."""
        until_s = time.monotonic() + self._wait_s
        while (committed := self._committed()).lsn < lsn:
            if time.monotonic() > until_s:
                return None
            time.sleep(_AGAIN_S)
        return committed

    def _compared(
        self, read: TopicRows, fold: Fold, number: int, table: ComparedTable, snapshot: DatabaseSnapshot
    ) -> TableFindings:
        found = TableFindings(table.name, table.topic)
        if table.uncompared:
            found.notes.append(f"columns that are not compared: {', '.join(table.uncompared)}")
        if not table.key:
            found.notes.append("it has no key that can be compared, so its rows cannot be told apart")
            return found
        try:
            groups = _groups(fold, number, table, snapshot, found)  # 4
            if groups:
                may_lack = table.topic in read.cut or not self._side.has_all
                _RowCheck(read, self._side, fold, number, table, found, may_lack).run(snapshot, groups)  # 5
        except Rewritten as error:
            found.notes.append(f"{error} was rewritten after the snapshot, which no longer shows its rows: repeat it")
        return found


def _groups(
    fold: Fold, number: int, table: ComparedTable, snapshot: DatabaseSnapshot, found: TableFindings
) -> set[str]:
    """Return the groups whose hashes differ, or cannot be compared; count the rows of the others as verified."""
    ours: dict[str, tuple[int, int]] = {}
    for group, count, total in snapshot.sums(table):
        before = ours.get(group, (0, 0))
        ours[group] = before[0] + count, before[1] + total
    found.rows = sum(count for count, _ in ours.values())
    groups = set(ours)
    for group, count, total, is_sure in fold.sums(number, GROUP_DIGITS):
        if is_sure and ours.get(group) == (count, total):
            groups.remove(group)
            found.verified += count
        else:
            groups.add(group)
    return groups


@dataclass
class _RowCheck:
    """Compares the rows of groups, one by one. `may_lack`: rows may be in no topic without a fault."""

    read: TopicRows
    side: Side
    fold: Fold
    number: int
    table: ComparedTable
    found: TableFindings
    may_lack: bool
    looked_at: int = 0

    def run(self, snapshot: DatabaseSnapshot, groups: set[str]) -> None:
        found, before, lacking = self.found, self.found.others, 0
        for key, *texts in snapshot.rows(self.table, groups):
            entry = self.fold.see(self.number, key)
            if entry is not None:
                self._check(texts, entry)
            elif self.may_lack:
                lacking += 1
            else:
                named = self._key(texts)
                found.differ(lambda named=named: self._difference(RowDifferenceKind.MISSING_IN_TOPIC, named))  # type: ignore[misc]
        for entry in self.fold.unseen(self.number, groups):
            if entry.known == UNSURE:
                found.others += 1
            else:
                found.differ(lambda entry=entry: self._ghost(entry))  # type: ignore[misc]
        if found.others > before:
            found.notes.append(
                f"{found.others - before} rows were not compared in full: their records lack values or fields, or are "
                "in several partitions"
            )
        if lacking:
            found.others += lacking
            found.notes.append(f"{lacking} rows are not in the topic, which lacks its first records")

    def _check(self, texts: list[str], entry: Entry) -> None:
        found = self.found
        if entry.known == UNSURE:
            found.others += 1
        elif entry.hash == self.table.digests(texts)[entry.known == Known.SURE]:
            found.verified += entry.known != Known.SURE
            found.others += entry.known == Known.SURE
        elif entry.known == Known.SOME and self.looked_at >= _LOOKED_AT:
            found.others += 1
        elif entry.known != Known.SOME and len(found.differences) >= _NAMED:
            found.differing += 1
        else:
            self._look_at(texts, entry)

    def _look_at(self, texts: list[str], entry: Entry) -> None:
        """Compare a row whose hash differs with its record: fields that the record does not have do not count."""
        self.looked_at += 1
        place = self.fold.place(entry.part)
        row = self.side.row_of(self.read.record(place, entry.at)[1])
        columns = self.table.differing(texts, row)
        if not columns and entry.known == Known.SOME:
            self.found.others += 1
            return
        self.found.differ(
            lambda: self._difference(RowDifferenceKind.DIFFERS, self._key(texts), tuple(columns), place, entry.at)
        )

    def _ghost(self, entry: Entry) -> RowDifference:
        place = self.fold.place(entry.part)
        key, _ = self.read.record(place, entry.at)
        named = self._key(self.table.key_texts(key))
        return self._difference(RowDifferenceKind.MISSING_IN_TABLE, named, (), place, entry.at)

    def _difference(self, kind: RowDifferenceKind, *more: Any) -> RowDifference:
        return RowDifference(kind, self.table.name, *more)

    def _key(self, texts: list[str]) -> tuple[tuple[str, str], ...]:
        return tuple((column.name, text) for column, text in zip(self.table.key, texts, strict=False))
