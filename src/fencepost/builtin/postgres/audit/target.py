"""What the audit of a sink compares: the tables that it writes, and what its topics say up to the offsets stored there.

Which table, columns and key a record has, the sink's own `Layout` says. What its values are in the database does not
come from the sink's code, but from the forms that an audit has.
"""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from fencepost.api import FatalError, Schema, SchemaType, SinkBatch
from fencepost.builtin.postgres.audit.form import Form, form_of
from fencepost.builtin.postgres.audit.snapshot import DatabaseSnapshot
from fencepost.builtin.postgres.audit.table import (
    ComparedColumn,
    ComparedTable,
    Row,
    RowDifferenceKind,
    Seen,
    Topics,
    Truncated,
    key_hash,
)
from fencepost.builtin.postgres.envelope.meaning import Kind, precision_and_scale
from fencepost.builtin.postgres.envelope.shape import kind_of
from fencepost.builtin.postgres.envelope.unavailable import placeholders
from fencepost.builtin.postgres.sink.changes import BadRecordsError, Changes, Layout
from fencepost.builtin.postgres.sink.settings import INSERT, SinkSettings
from fencepost.builtin.postgres.sink.table_name import TableName
from fencepost.builtin.postgres.sink.text import column_type, value_type
from fencepost.postgres import ConnectionSettings
from fencepost.postgres.catalog import Column, Table
from fencepost.postgres.catalog import table as in_catalog
from fencepost.postgres.name import literal
from fencepost.record import TopicPartition
from fencepost.record.type_table import DECIMAL_NAME

_LEAVES = "SELECT relid::oid::bigint FROM pg_partition_tree({}) WHERE isleaf ORDER BY 1"
_TYPES = "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = {} AND attnum > 0"

_INTEGERS, _TEXTS = ("int2", "int4", "int8", "oid"), ("text", "varchar")
_KEYS = frozenset((*_INTEGERS, *_TEXTS, "bool", "bytea", "date", "numeric", "timestamp", "timestamptz", "uuid"))


@dataclass
class _Written:
    """What the last records have that belong to a table. `others` are columns that only older ones have."""

    topics: list[str] = field(default_factory=list)
    columns: dict[str, Schema | None] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    keys: set[tuple[str, ...]] = field(default_factory=set)


class TargetSide:
    """The tables of a sink, and its records.

    `name` is the connector's. `excuses` say why rows that differ may be right, as far as it has nothing to do with
    Postgres.
    """

    def __init__(self, config: SinkSettings, name: str, excuses: Mapping[RowDifferenceKind, str]) -> None:
        self._config, self._name, self._excuses = config, name, excuses
        self._layout = Layout(config)
        self._written: dict[TableName, _Written] = {}
        self._columns: dict[int, TargetColumns] = {}
        self._lacking: dict[str, str] = {}  # why a topic may lack records

    @property
    def database(self) -> ConnectionSettings:
        return self._config.connection("fencepost audit")

    def ends(self, snapshot: DatabaseSnapshot, topics: Topics) -> dict[TopicPartition, int]:
        """Return up to where the snapshot's tables have the records of partitions. Raises FatalError."""
        table = TableName.parse(self._config.offsets_table, self._config.default_schema)
        if _oid(snapshot, table) is None:
            raise FatalError(f"{self._name} has not written anything: there is no table {table} with its offsets")
        query = f"SELECT topic, partition, topic_id, next_offset FROM {table.sql} WHERE sink = {literal(self._name)}"
        stored = [row for row in snapshot.connection.execute(query.encode()).fetchall() if row[3]]
        ids = topics.ids({topic for topic, *_ in stored})
        why = "which was created again after the sink had read a topic of that name"
        self._lacking |= {topic: why for topic, _, id_, _ in stored if ids.get(topic) != id_}
        return {TopicPartition(topic, number): end for topic, number, id_, end in stored if ids.get(topic) == id_}

    def tables(self, snapshot: DatabaseSnapshot, topics: Topics) -> list[ComparedTable]:
        """Return the tables that are compared, as the snapshot has them. Raises FatalError.

        Their columns are those that the last records have when this is first called.
        """
        if not self._written:
            for place, end in sorted(self.ends(snapshot, topics).items()):
                self._learn(place.topic, topics.last(place, end))
            if not self._written:
                raise FatalError(f"{self._name} has not written anything of topics that exist")
        found = [self._table(snapshot, name, written) for name, written in sorted(self._written.items(), key=str)]
        return [table for table in found if table is not None]

    def changes(self, table: ComparedTable, place: TopicPartition, batch: SinkBatch) -> Iterator[Row | Truncated]:
        """Yield what the records of a partition make of a table, in order."""
        for each in self._changes(batch):
            own, columns = self._read(table, each)
            written = self._written[each.table]
            written.others |= columns.keys() - written.columns.keys()
            names = [column.name for column in own.columns if column.field]
            if not all(column.field for column in own.key):
                self._lacking[place.topic] = "of which some records lack fields of the key"
                continue
            keys = zip(*([c.text_of(value) for value in columns[c.name]] for c in own.key), strict=True)
            rows = zip(*(columns[name] for name in names), strict=True) if names else iter([()] * len(each))
            for at, (key, values) in enumerate(zip(keys, rows, strict=True)):
                hash_, known = None, 0
                if each.is_delete is None or not each.is_delete[at]:
                    hash_, known = own.hashed(key, dict(zip(names, values, strict=True)))
                yield Row(key_hash(key), hash_, known, batch.offsets[each.rows[at]])

    def seen(self, table: ComparedTable, batch: SinkBatch) -> Seen:
        """Return what a record has."""
        own, columns = self._read(table, self._changes(batch)[0])
        row = {column.name: columns[column.name][0] for column in (*own.key, *own.columns) if column.field}
        return Seen(own, own.key_texts(row), row)

    def excuse(self, kind: RowDifferenceKind, table: ComparedTable) -> str:
        """Say why a row that differs so may be right; empty if it is a fault."""
        if kind is not RowDifferenceKind.MISSING_IN_TOPIC:
            return self._excuses.get(kind, "")
        for topic in table.topics:
            if topic in self._lacking:
                return self._lacking[topic]
        return "" if self._config.auto_create else "and the table may have had them before (auto.create=false)"

    def _changes(self, batch: SinkBatch) -> list[Changes]:
        try:
            return self._layout.changes(batch)
        except BadRecordsError as error:
            bad = {row for row, _ in error.found}
            return self._layout.changes(batch.select([row for row in range(len(batch)) if row not in bad]))

    def _read(self, table: ComparedTable, changes: Changes) -> tuple[ComparedTable, dict[str, Sequence[Any]]]:
        """Return the table as changes are compared with it, and their values by column."""
        own = self._columns[table.oid].as_written(table, {column.name: column.schema for column in changes.columns})
        return own, {column.name: column.values for column in changes.columns}

    def _learn(self, topic: str, last: Iterator[SinkBatch]) -> None:
        written = self._written.setdefault(self._layout.table(topic), _Written())
        if topic not in written.topics:
            written.topics.append(topic)
        for batch in last:
            changes = self._changes(batch)
            for each in changes:
                written.columns |= {column.name: column.schema for column in each.columns}
                written.keys.add(tuple(each.keys))
            if not all(each.is_delete and all(each.is_delete) for each in changes):
                return

    def _table(self, snapshot: DatabaseSnapshot, name: TableName, written: _Written) -> ComparedTable | None:
        """Return a table; None if it is missing, and records have only deleted rows of it."""
        oid = _oid(snapshot, name)
        found = None if oid is None else in_catalog(snapshot.connection, oid)
        if found is None:
            if set(written.columns) <= {column for key in written.keys for column in key}:
                return None
            raise FatalError(f"{name} is no table of the database, or not a permanent one")
        types = dict(snapshot.connection.execute(_TYPES.format(oid).encode()).fetchall())
        kept = {each.name: (each, types[each.name]) for each in found.columns if not each.is_generated}
        own = self._columns[found.oid] = TargetColumns(self._config, kept)
        names = self._key(found, written)
        keys = [own.key(each, written.columns[each]) for each in names if each in own]
        key = tuple(column for column in keys if column is not None)
        columns = {each: own.column(each, schema) for each, schema in written.columns.items() if each in own}
        return ComparedTable(
            found.oid,
            str(name),
            tuple(written.topics),
            tuple(snapshot.stored(leaf) for leaf in _leaves(snapshot, found)),
            key if len(key) == len(names) else (),
            tuple(column for each, column in columns.items() if column is not None and each not in names),
            uncompared=(
                *(each for each, column in columns.items() if column is None),
                *sorted(each for each in written.others if each in own),
            ),
        )

    def _key(self, table: Table, written: _Written) -> Sequence[str]:
        """Return the columns that tell rows apart: the sink's key; if it only adds rows, a unique index."""
        if self._config.insert_mode.lower() == INSERT and not self._config.delete_enabled:
            unique = [key for key in (table.key, *table.unique_keys) if key and set(key) <= set(written.columns)]
            return unique[0] if unique else ()
        return next(iter(written.keys)) if len(written.keys) == 1 else ()


def _oid(snapshot: DatabaseSnapshot, table: TableName) -> int | None:
    found: int | None = snapshot.row(f"SELECT to_regclass({literal(table.sql)})::oid::bigint")[0]
    return found


def _leaves(snapshot: DatabaseSnapshot, table: Table) -> list[Table]:
    if not table.is_partitioned:
        return [table]
    leaves = snapshot.connection.execute(_LEAVES.format(table.oid).encode()).fetchall()
    return [leaf for (oid,) in leaves if (leaf := in_catalog(snapshot.connection, oid)) is not None]


class TargetColumns:
    """The columns of one table. `columns` has those of the catalog by name, each with its type in SQL."""

    def __init__(self, config: SinkSettings, columns: Mapping[str, tuple[Column, str]]) -> None:
        self._zone, self._columns = config.zone, columns
        self._absent = placeholders(config.unavailable_value_placeholder)
        self._as_written: dict[Any, ComparedTable] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def column(self, name: str, schema: Schema | None) -> ComparedColumn | None:
        """Return a column as values of a schema (None: without one) are compared with it; None if they cannot be."""
        column, type_ = self._columns[name]
        kind = kind_of(column)
        form = _form(kind, schema, self._zone)
        if form is None:
            return None
        absent = tuple(self._absent.get(None if schema is None else schema.type, ()))
        written = None if _is_exact(kind, schema) else self._written(schema, type_)
        return ComparedColumn(name, name, form.sql, form.text, absent=absent, written=written, type=type_)

    def key(self, name: str, schema: Schema | None) -> ComparedColumn | None:
        """Return a column of the key. None if equal keys may have different texts."""
        kind, found = kind_of(self._columns[name][0]), self.column(name, schema)
        is_fit = found is not None and found.written is None and kind.element is None and kind.name in _KEYS
        return replace(found, absent=()) if found is not None and is_fit else None

    def as_written(self, table: ComparedTable, schemas: Mapping[str, Schema | None]) -> ComparedTable:
        """Return the table as records with columns of these schemas are compared with it.

        A column that these records do not have, or not in the form of the table's, has no field.
        """
        id_ = tuple(schemas.items())
        if id_ not in self._as_written:
            key, columns = (tuple(self._shown(each, schemas) for each in own) for own in (table.key, table.columns))
            self._as_written[id_] = replace(table, key=key, columns=columns)
        return self._as_written[id_]

    def _shown(self, column: ComparedColumn, schemas: Mapping[str, Schema | None]) -> ComparedColumn:
        own = self.column(column.name, schemas[column.name]) if column.name in schemas else None
        if own is None or own.sql != column.sql:
            return replace(column, field="")
        return replace(column, text=own.text, written=own.written)

    def _written(self, schema: Schema | None, type_: str) -> Callable[[Any], str]:
        return _any_text if schema is None else column_type(schema, self._zone, type_).text


def _any_text(value: Any) -> str:
    return value_type(value).text(value)


def _form(kind: Kind, schema: Schema | None, zone: dt.tzinfo | None) -> Form | None:
    """Return the form by which values that a sink writes are compared, in whatever notation they come."""
    form = form_of(kind, schema)
    if form is None or kind.element is not None:
        return form
    if kind.name == "uuid":
        return Form(form.sql, lambda value: str(UUID(value)))
    if schema is None and kind.name in _TEXTS:
        return Form(form.sql, _any_text)
    if zone is not None and kind.name == "timestamp":
        return Form(form.sql, lambda value: form.text(_in_zone(zone, value)))
    return form


def _in_zone(zone: dt.tzinfo, value: Any) -> Any:
    if not isinstance(value, dt.datetime):
        return value
    aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    return aware.astimezone(zone).replace(tzinfo=dt.UTC)


def _is_exact(kind: Kind, schema: Schema | None) -> bool:
    """Say whether the column has a value of the schema as it is: not rounded, cut, or in another notation."""
    if kind.element is not None or kind.name in ("jsonb", "interval"):
        return False
    if kind.name in (*_TEXTS, "uuid"):
        return schema is None or schema.type is SchemaType.STRING
    if schema is None:
        return kind.name in _INTEGERS
    if schema.type is SchemaType.STRING:
        return False
    if schema.name == DECIMAL_NAME:
        scale = int(dict(schema.parameters).get("scale", "0"))
        return kind.modifier < 0 or scale <= precision_and_scale(kind.modifier)[1]
    return kind.modifier < 0
