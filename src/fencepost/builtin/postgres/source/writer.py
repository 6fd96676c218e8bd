"""Makes records of what pgoutput sends, and of rows of the snapshot."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from fencepost.api import INT64, Batch, FatalError, Header, Repeated, SourceRecord, StructColumn
from fencepost.builtin.postgres.envelope import (
    Event,
    Events,
    Heartbeats,
    OpenTransaction,
    TableFilter,
    TableShape,
    TransactionRecords,
)
from fencepost.builtin.postgres.envelope import Position as Place
from fencepost.builtin.postgres.source.changes import ChangePlace
from fencepost.builtin.postgres.source.progress import Position
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.hook.written import Written
from fencepost.postgres import pgoutput
from fencepost.postgres.catalog import Column, Table, TypeEntry, table, types

EARLIER = "fencepost.transaction.earlier"
"""The header of records of a split transaction, from its second part on: how many changes are in the parts before."""

_FEW = 64
"""Below as many rows, records take less time one by one than as columns: a batch of columns costs about 130 calls."""


class Row(NamedTuple):
    """An insert (`c`), or an update (`u`) of which the old row is not known and all new values are."""

    shape: TableShape
    operation: str
    values: Sequence[str | None]
    place: ChangePlace

    @property
    def topic(self) -> str:
        return self.shape.topic


Change = Row | SourceRecord
"""A change of a row that waits to become a record, or a record of another kind."""


def now_us() -> int:
    return time.time_ns() // 1000


def snapshot_batch(
    config: SourceSettings, shape: TableShape, columns: list[Any], place: Place, partition: dict[str, Any], kind: str
) -> Batch:
    """Return rows of a snapshot as a batch. They have no offset: their chunk has.

    `columns` has an Arrow array of texts for each column of the table. `partition` is the source partition of that
    offset, which waits for its records if there are no transactions. `kind` is what the source block says of them.
    """
    count = len(columns[0])
    return _batch(
        partition, shape, Events(config, now_us).read_columns(shape, columns, place, Repeated(kind, count)), count
    )


def _batch(
    partition: dict[str, Any], shape: TableShape, columns: tuple[StructColumn | None, StructColumn], count: int
) -> Batch:
    keys, values = columns
    return Batch(
        Repeated(shape.topic, count),
        values,
        Repeated(partition, count),
        Repeated(None, count),
        shape.envelope_schema,
        keys,
        None if keys is None else shape.key_schema,
    )


def runs(changes: Sequence[Change], *, is_order_kept: bool) -> list[list[Change]]:
    """Put rows of one table together, as far as the order within each topic (or of all, if it is kept) allows."""
    found: list[list[Change]] = []
    open_: dict[str, list[Change]] = {}  # by topic: the last run, if it is of rows
    for change in changes:
        run = open_.get(change.topic)
        if isinstance(change, Row):
            if run is None or run[0].shape is not change.shape or (is_order_kept and run is not found[-1]):  # type: ignore[union-attr]
                run = open_[change.topic] = []
                found.append(run)
        else:
            open_.pop(change.topic, None)
            if not found or isinstance(found[-1][0], Row):
                found.append([])
            run = found[-1]
        run.append(change)
    return found


def _is_whole(update: pgoutput.Update) -> bool:
    return update.old is None and pgoutput.UNCHANGED not in update.new


class Gate(Protocol):
    """Decides which changes of captured tables are written."""

    @property
    def signals(self) -> int | None:
        """Return the table of signals, by oid, once it was met."""

    def meet(self, oid: int, *, has_signals: bool = False) -> None:
        """Learn that changes of a table will follow."""

    def is_written(self, oid: int, begin: pgoutput.Begin) -> bool: ...

    def signal(self, values: Sequence[str | None], lsn: int) -> None:
        """Take a row of the table of signals, of a transaction that was committed at a place."""


class RecordWriter:
    """Makes the records of changes. `connection` is asked about tables; it has autocommit."""

    def __init__(
        self, config: SourceSettings, connection: Any, joining: Gate | None = None, written: Written | None = None
    ) -> None:
        """`joining` decides about changes of tables whose rows were not read yet; `written` is what is in Kafka."""
        self._config, self._connection, self._joining, self._written = config, connection, joining, written
        self._events = Events(config, now_us)
        self._shapes: dict[int, TableShape | None] = {}
        self._partition = {"server": config.prefix}
        self._transactions = TransactionRecords(config) if config.provide_transaction_metadata else None
        self._open: OpenTransaction | None = None
        self._has_columns = self._transactions is None and not config.skipped & {"c", "u"}

    def relation(self, relation: pgoutput.Relation) -> None:
        """Learn the form of a table, as the changes after it have it."""
        captured = TableFilter(self._config)
        if not captured(relation.schema, relation.table):
            self._shapes[relation.oid] = None
            return
        known = table(self._connection, relation.oid)
        if self._joining is not None:
            self._joining.meet(relation.oid, has_signals=captured.is_of_signals(relation.schema, relation.table))
        oids = [column.type_oid for column in relation.columns]
        self._shapes[relation.oid] = TableShape(as_sent(relation, known, types(self._connection, oids)), self._config)

    def begin(self, place: ChangePlace) -> Sequence[SourceRecord]:
        if self._transactions is None:
            return ()
        self._open = OpenTransaction()
        return (self._record(self._transactions.begin(_at(place))),)

    def end(self, place: ChangePlace) -> Sequence[SourceRecord]:
        if self._transactions is None or self._open is None:
            return ()
        return (self._record(self._transactions.end(_at(place), self._open), _headers(place)),)

    def heartbeat(self) -> Sequence[SourceRecord]:
        """Return a heartbeat, if the config asks for them."""
        if not self._config.heartbeat_interval_ms:
            return ()
        return (self._record(Heartbeats(self._config).beat(now_us() // 1000)),)

    def change(self, change: Any, place: ChangePlace) -> Sequence[Change]:
        kind = type(change)
        is_insert = kind is pgoutput.Insert
        if is_insert and self._joining is not None and change.oid == self._joining.signals:
            self._joining.signal(change.new, place.begin.final_lsn)
        if self._has_columns and not place.earlier and (is_insert or (kind is pgoutput.Update and _is_whole(change))):
            shape = self._shape(change.oid, place)
            return () if shape is None else (Row(shape, "c" if is_insert else "u", change.new, place),)
        return self._records(change, place)

    def message(self, message: pgoutput.Message, lsn: int, last: Position) -> Sequence[SourceRecord]:
        """Return the record of a message in no transaction. It has the time of the one before, as Debezium's has."""
        at = Place(lsn, lsn, None, last.time_us or now_us())
        return list(map(self._record, self._events.messages.records(message, at)))

    def without_written(self, changes: Sequence[Change]) -> Sequence[SourceRecord]:
        records = [one for each in changes for one in self._of_waiting(each)]
        if self._written is None:
            return records
        return [one for one in records if not self._written.has(one, partial(_is_same_change, one.value))]

    def batches(self, changes: Sequence[Change]) -> list[Batch | list[SourceRecord]]:
        """Return the records of changes: batches of columns, and lists of records where few rows are alike.

        Records of a topic stay in their order. Those of different topics do only if there are transforms, which may
        bring them into one topic.
        """
        found: list[Batch | list[SourceRecord]] = []
        for run in runs(changes, is_order_kept=bool(self._config.originals.get("transforms"))):
            if isinstance(run[0], Row) and len(run) >= _FEW:
                found.append(self._batch(run))  # type: ignore[arg-type]
                continue
            if not found or isinstance(found[-1], Batch):
                found.append([])
            for each in run:
                found[-1] += self._of_waiting(each)  # type: ignore[operator]
        return found

    def _batch(self, rows: Sequence[Row]) -> Batch:
        import pyarrow as pa

        shape, count = rows[0].shape, len(rows)
        columns = [pa.array(column, pa.string()) for column in zip(*(row.values for row in rows), strict=True)]
        operations = [row.operation for row in rows]
        positions = [_at(row.place) for row in rows]
        return _batch(self._partition, shape, self._events.change_columns(shape, columns, positions, operations), count)

    def _of_waiting(self, row: Change) -> Sequence[SourceRecord]:
        if not isinstance(row, Row):
            return (row,)
        at = _at(row.place)
        if row.operation == "c":
            return list(map(self._record, self._events.insert(row.shape, row.values, at)))
        return list(map(self._record, self._events.update(row.shape, None, row.values, at)))

    def _records(self, change: Any, place: ChangePlace) -> Sequence[SourceRecord]:
        return [self._record(event, _headers(place)) for event in self._events_of(change, place, _at(place))]

    def _events_of(self, change: Any, place: ChangePlace, at: Place) -> Iterator[Event]:
        match change:
            case pgoutput.Message():
                yield from self._events.messages.records(change, at, self._open)
            case pgoutput.Truncate():
                for each in filter(None, [self._shape(oid, place) for oid in change.oids]):
                    yield from self._events.truncate(each, at, self._open)
            case pgoutput.Insert() | pgoutput.Update() | pgoutput.Delete():
                shape = self._shape(change.oid, place)
                if shape is not None:
                    yield from self._of_row(shape, change, at)

    def _of_row(self, shape: TableShape, change: Any, at: Place) -> Iterable[Event]:
        match change:
            case pgoutput.Insert():
                return self._events.insert(shape, change.new, at, self._open)
            case pgoutput.Update():
                return self._events.update(shape, change.old, change.new, at, self._open)
            case _:
                return self._events.delete(shape, change.old, at, self._open)

    def _shape(self, oid: int, place: ChangePlace) -> TableShape | None:
        """Return the form of a table of which a change is written; None if it is not."""
        if oid not in self._shapes:
            raise FatalError(f"the server sent a change of table {oid}, and not what the table is")
        shape, joining = self._shapes[oid], self._joining
        return shape if shape is None or joining is None or joining.is_written(oid, place.begin) else None

    def _record(self, event: Event, headers: tuple[Header, ...] = ()) -> SourceRecord:
        return SourceRecord(
            self._partition,
            None,
            event.topic,
            event.value,
            event.value_schema,
            event.key,
            event.key_schema,
            headers=event.headers + headers,
        )


def _is_same_change(value: Any, written: Any) -> bool:
    """Say whether a written value is that of a change: of the same operation at the same place."""
    if not isinstance(written, Mapping) or not isinstance(written.get("source"), Mapping):
        return False
    return written.get("op") == value["op"] and all(
        written["source"].get(name) == value["source"][name] for name in ("lsn", "txId")
    )


def _headers(place: ChangePlace) -> tuple[Header, ...]:
    return (Header(EARLIER, place.earlier, INT64),) if place.earlier else ()


def _at(place: ChangePlace) -> Place:
    return Place(place.lsn, place.last_commit_lsn, place.begin.xid, place.begin.commit_time_us)


def as_sent(relation: pgoutput.Relation, known: Table | None, entries: dict[int, TypeEntry]) -> Table:
    """Return a table as a message says it is, with what the catalog says about the columns that are the same now.

    The catalog may be newer: a column may have been dropped, renamed or retyped since.
    """
    now = {} if known is None else {column.name: column for column in known.columns}
    columns = []
    for position, sent in enumerate(relation.columns, 1):
        same = now.get(sent.name)
        if same is not None and (same.type_oid, same.type_modifier) == (sent.type_oid, sent.type_modifier):
            columns.append(same)
        else:
            columns.append(_column(sent, position, entries))
    names = {column.name for column in columns}
    key = () if known is None else tuple(name for name in known.key if name in names)
    if known is None or len(key) < len(known.key):
        key = tuple(column.name for column in relation.columns if column.is_key and relation.replica_identity != "f")
    base = Table(relation.oid, relation.schema, relation.table, ()) if known is None else known
    return replace(base, schema=relation.schema, name=relation.table, columns=tuple(columns), key=key)


def _column(sent: pgoutput.RelationColumn, position: int, entries: dict[int, TypeEntry]) -> Column:
    """Return a column that the catalog does not have any more, by its type."""
    own = entries.get(sent.type_oid)
    if own is None:
        raise FatalError(
            f"column {sent.name} has a type that was dropped (oid {sent.type_oid}), so its values cannot be read: "
            "leave the column out (column.exclude.list), or create the type again"
        )
    base, modifier = own, -1
    while base.kind == "d":
        modifier = base.base_modifier if modifier < 0 else modifier
        base = entries[base.base_oid]
    element = entries.get(base.element_oid)
    return Column(
        sent.name,
        position,
        sent.type_oid,
        sent.type_modifier,
        own.name,
        element is not None,
        base.element_oid,
        element.enum_values if element else base.enum_values,
        base.oid if own.kind == "d" else 0,
        not_null=sent.is_key,
        element_name=element.name if element else "",
        domain_base_name=base.name if own.kind == "d" else "",
        domain_base_modifier=modifier,
    )
