"""Compares tables of a database with topics: hashes of groups of rows first, then the rows of the groups that differ.

Nothing is changed, and connector and database may move meanwhile. The order of steps avoids false alarms:

1. Read the topics up to where the connector is, and keep the last row of each key (`Fold`).
2. Take a snapshot of the database.
3. Read on up to the place that belongs to the snapshot, which the `Position` knows.
4. Compare the hashes of groups of keys, computed in the database, with those of the topics.
5. Read the rows of the groups that differ, and name the first that do.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fencepost.api import FatalError
from fencepost.builtin.postgres.audit.snapshot import DatabaseSnapshot, Rewritten
from fencepost.builtin.postgres.audit.table import GROUP_DIGITS, ComparedTable, Known, RowDifferenceKind
from fencepost.ledger.database_position import Position
from fencepost.ledger.fold import UNSURE, Entry, Fold
from fencepost.ledger.log import OnPartition
from fencepost.ledger.topic_rows import Decode, Side, TopicRows
from fencepost.postgres import explain, format_lsn
from fencepost.record import TopicPartition

_NAMED = 20  # rows of a table that are named
_LOOKED_AT = 1_000  # rows of a table whose records are read again
_NOT_READ = "the connector has not read its rows yet: repeat the audit when it has"


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
    """Reads a connector's tables, and its topics."""

    def __init__(
        self,
        conf: Mapping[str, Any],
        connector: str,
        side: Side,
        decode: Decode,
        position: Position,
        *,
        state: Path | None = None,
    ) -> None:
        """`conf` is made by `range_conf`.

        Args:
            conf: Of the brokers.
            connector: The connector's name.
            side: What its config says.
            decode: Its converters.
            position: Says up to where both are compared.
            state: A file that keeps what was read of the topics until an audit has ended, so that the next one goes on.
        """
        self._conf, self._connector, self._side, self._decode = conf, connector, side, decode
        self._position, self._state = position, state

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
            tables = self._tables(snapshot, read, topics)
            first = self._position.first(snapshot, read, tables)
            snapshot.end()
            path = self._state or Path(opened.enter_context(TemporaryDirectory(prefix="fencepost-audit-"))) / "rows"
            identity = self._identity(read, tables)
            fold = opened.enter_context(closing(Fold(path, identity)))
            read.read(fold, tables, first)  # 1
            self._position.begin(snapshot, read)  # 2
            tables = self._tables(snapshot, read, topics)
            if self._identity(read, tables) != identity:
                raise FatalError("a table or a topic was changed meanwhile: repeat the audit")
            report.position = format_lsn(snapshot.lsn)
            reached = self._position.reached(snapshot, read, tables)  # 3
            if isinstance(reached, str):
                report.notes.append(reached)
                return report
            report.notes.extend(reached.notes)
            read.read(fold, tables, reached.ends, reached.visible)
            for number, table in enumerate(tables):
                if reached.tables is None or table.oid in reached.tables:
                    report.tables.append(self._compared(read, fold, number, table, snapshot))
                else:
                    report.tables.append(TableFindings(table.name, ", ".join(table.topics), notes=[_NOT_READ]))
        if self._state is not None:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._state}{suffix}").unlink(missing_ok=True)
        return report

    def _tables(self, snapshot: DatabaseSnapshot, read: TopicRows, topics: Collection[str]) -> list[ComparedTable]:
        found = self._side.tables(snapshot, read)
        return [table for table in found if not topics or not {*topics}.isdisjoint(table.topics)]

    def _identity(self, read: TopicRows, tables: Sequence[ComparedTable]) -> str:
        """Return a text that is another one if rows have other hashes, or topics were made again."""
        shown = [(t.topics, [(c.name, c.sql, c.stand_in) for c in (*t.key, *t.columns)]) for t in tables]
        ids = read.ids([topic for table in tables for topic in table.topics])
        return repr((self._connector, shown, sorted(ids.items())))

    def _compared(
        self, read: TopicRows, fold: Fold, number: int, table: ComparedTable, snapshot: DatabaseSnapshot
    ) -> TableFindings:
        found = TableFindings(table.name, ", ".join(table.topics))
        if table.uncompared:
            found.notes.append(f"columns that are not compared: {', '.join(table.uncompared)}")
        if not table.key:
            found.notes.append("it has no key that can be compared, so its rows cannot be told apart")
            return found
        try:
            groups = _groups(fold, number, table, snapshot, found)  # 4
            if groups:
                _RowCheck(read, fold, number, table, found, snapshot).run(groups)  # 5
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
    """Compares the rows of groups, one by one. `excused`: how many may differ without a fault, and the first."""

    read: TopicRows
    fold: Fold
    number: int
    table: ComparedTable
    found: TableFindings
    snapshot: DatabaseSnapshot
    looked_at: int = 0
    excused: dict[RowDifferenceKind, tuple[int, RowDifference]] = field(default_factory=dict)

    def run(self, groups: set[str]) -> None:
        found, before = self.found, self.found.others
        for key, *texts in self.snapshot.rows(self.table, groups):
            entry = self.fold.see(self.number, key)
            if entry is not None:
                self._check(texts, entry)
            else:
                self._differ(RowDifferenceKind.MISSING_IN_TOPIC, lambda texts=texts: self._named(texts))  # type: ignore[misc]
        for entry in self.fold.unseen(self.number, groups):
            if entry.known == UNSURE:
                found.others += 1
            else:
                self._differ(RowDifferenceKind.MISSING_IN_TABLE, lambda entry=entry: self._ghost(entry))  # type: ignore[misc]
        if found.others > before:
            found.notes.append(
                f"{found.others - before} rows were not compared in full: their records lack values or fields, or are "
                "in several partitions"
            )
        for kind, (count, first) in self.excused.items():
            found.others += count
            why = self._excuse(kind)
            found.notes.append(f"{count} rows count as not compared: {kind.value}, {why}. The first: {first}")

    def _excuse(self, kind: RowDifferenceKind) -> str:
        if kind is RowDifferenceKind.MISSING_IN_TOPIC and not self.read.cut.isdisjoint(self.table.topics):
            return "which lacks its first records"
        return self.read.side.excuse(kind, self.table)

    def _differ(self, kind: RowDifferenceKind, make: Callable[[], RowDifference]) -> None:
        if self._excuse(kind):
            count, first = self.excused.get(kind, (0, None))
            self.excused[kind] = count + 1, first or make()
        else:
            self.found.differ(make)

    def _check(self, texts: list[str], entry: Entry) -> None:
        found = self.found
        is_same = entry.hash == self.table.digests(texts)[entry.known == Known.SURE]
        if entry.known == UNSURE:
            found.others += 1
        elif is_same and entry.known != Known.SURE:
            found.verified += 1
        elif not is_same and entry.known != Known.SOME:
            self._differ(RowDifferenceKind.DIFFERS, lambda: self._look_at(texts, entry)[0])
        elif self.looked_at >= _LOOKED_AT:
            found.others += 1
        else:
            self.looked_at += 1
            difference, has_all = self._look_at(texts, entry)
            if difference.columns:
                self._differ(RowDifferenceKind.DIFFERS, lambda: difference)
            else:
                found.verified += has_all
                found.others += not has_all

    def _look_at(self, texts: list[str], entry: Entry) -> tuple[RowDifference, bool]:
        """Compare a row whose hash differs with its record, and say whether this has all columns that are not null."""
        place = self.fold.place(entry.part)
        own, _, row = self.read.side.seen(self.table, self.read.record(place, entry.at))
        columns = own.differing(texts, row, self.snapshot.cast)
        difference = self._named(texts, RowDifferenceKind.DIFFERS, tuple(columns), place, entry.at)
        given = zip(own.columns, texts[len(own.key) :], strict=True)
        return difference, all(column.is_in(row) or text == column.null for column, text in given)

    def _ghost(self, entry: Entry) -> RowDifference:
        place = self.fold.place(entry.part)
        _, key, _ = self.read.side.seen(self.table, self.read.record(place, entry.at))
        return self._named(key, RowDifferenceKind.MISSING_IN_TABLE, (), place, entry.at)

    def _named(
        self, texts: list[str], kind: RowDifferenceKind = RowDifferenceKind.MISSING_IN_TOPIC, *more: Any
    ) -> RowDifference:
        key = tuple((column.name, text) for column, text in zip(self.table.key, texts, strict=False))
        return RowDifference(kind, self.table.name, key, *more)
