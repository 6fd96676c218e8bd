"""What the audit of a source compares: the captured tables as their topics show them, and what records make of them."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fencepost.api import FatalError, Schema, SchemaType, SinkBatch
from fencepost.builtin.postgres.audit.form import form_of
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
from fencepost.builtin.postgres.envelope import TableShape
from fencepost.builtin.postgres.envelope.column_rule import ColumnRules
from fencepost.builtin.postgres.envelope.name import field_name
from fencepost.builtin.postgres.envelope.shape import kind_of
from fencepost.builtin.postgres.envelope.unavailable import placeholders
from fencepost.builtin.postgres.source.publishing import Capture, published
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.postgres import ConnectionSettings
from fencepost.postgres.catalog import Column, Table
from fencepost.record import TopicPartition

Decode = Callable[[Schema, Any], Any]
"""Makes a value of a schema of what JSON without one has."""


class SourceSide:
    """The tables of a source, and its records. `decode` is given if records are JSON without schemas."""

    def __init__(self, config: SourceSettings, decode: Decode | None = None) -> None:
        self._config, self._decode = config, decode
        self._rules = ColumnRules(config)
        self._absent = placeholders(config.unavailable_value_placeholder)
        self._last: dict[TopicPartition, tuple[int, int | None]] = {}

    @property
    def database(self) -> ConnectionSettings:
        return replace(self._config.connection_settings(), application_name="fencepost audit")

    def excuse(self, kind: RowDifferenceKind, table: ComparedTable) -> str:
        """Say why a row that differs so may be right; empty if it is a fault."""
        if kind is RowDifferenceKind.MISSING_IN_TOPIC and not self._config.has_snapshot:
            return "which lacks its first records"
        return ""

    def tables(self, snapshot: DatabaseSnapshot, topics: Topics) -> list[ComparedTable]:
        """Return the captured tables as the snapshot has them. Raises FatalError."""
        capture = Capture.of(snapshot.connection, self._config)
        stored: dict[int, list[Table]] = {}
        for leaf, shown in capture.stored():
            stored.setdefault(shown.oid, []).append(leaf)
        return [self._table(snapshot, table, stored.get(table.oid, [])) for table in capture.tables]

    def changes(self, table: ComparedTable, place: TopicPartition, batch: SinkBatch) -> Iterator[Row | Truncated]:
        """Yield what the records of a partition make of a table, in order.

        A tombstone belongs to the transaction of the delete before it.
        """
        lsn, xid = self._last.get(place, (0, None))
        for value, key, at in zip(batch.values, batch.keys, batch.offsets, strict=True):
            op = None
            if value is not None:
                source, op = value.get("source") or {}, value.get("op")
                lsn, xid = source.get("lsn") or 0, source.get("txId")
            if op == "t":
                yield Truncated(at, lsn, xid)
            elif key is not None and op != "m":
                texts = table.key_texts(key)
                is_gone = op is None or op == "d"
                hash_, known = (None, 0) if is_gone else table.hashed(texts, value["after"])
                yield Row(key_hash(texts), hash_, known, at, lsn, xid)
        self._last[place] = lsn, xid

    @staticmethod
    def seen(table: ComparedTable, batch: SinkBatch) -> Seen:
        """Return what a record has."""
        return Seen(table, table.key_texts(batch.keys[0]), batch.values[0]["after"])

    def _table(self, snapshot: DatabaseSnapshot, table: Table, stored: list[Table]) -> ComparedTable:
        selection = published(snapshot.connection, self._config.publication_name, table)
        if selection is None:
            raise FatalError(f"table {table.schema}.{table.name} is not in the publication any more")
        shown, rows = selection
        shape = TableShape(shown, self._config)
        after = shape.envelope_schema.field("after")
        assert after is not None
        keys = self._columns(shown, shape.key_schema, is_key=True)
        columns = self._columns(shown, after.schema)
        lacking = tuple(name for name, column in {**keys, **columns}.items() if column is None)
        key = tuple(column for column in keys.values() if column is not None)
        return ComparedTable(
            table.oid,
            f"{table.schema}.{table.name}",
            (shape.topic,),
            tuple(snapshot.stored(each) for each in stored),
            key if len(key) == len(keys) else (),
            tuple(column for column in columns.values() if column is not None),
            rows,
            lacking,
        )

    def _columns(
        self, table: Table, schema: Schema | None, *, is_key: bool = False
    ) -> dict[str, ComparedColumn | None]:
        """Return the columns that a struct has, in its order; None for those that cannot be compared."""
        named = {field_name(self._config, column.name): column for column in table.columns}
        fields = () if schema is None else schema.fields
        return {named[f.name].name: self._column(table, named[f.name], f.name, f.schema, is_key) for f in fields}

    def _column(self, table: Table, column: Column, field: str, schema: Schema, is_key: bool) -> ComparedColumn | None:
        kind = kind_of(column)
        form = form_of(kind, schema)
        dotted = f"{table.schema}.{table.name}"
        is_changed = not is_key and self._rules(dotted, column.name, kind, column.type_name, schema)[1] is not None
        if form is None or is_changed:
            return None
        text, decode = form.text, self._decode
        if decode is not None:
            inner, bare = form.text, replace(schema, is_optional=True, default=None)

            def text(value: Any) -> str | None:
                return inner(decode(bare, value))

        made = ComparedColumn(column.name, field, form.sql, text)
        has_default = schema.default is not None and schema.is_optional
        default = replace(made, text=form.text).text_of(schema.default) if has_default else None
        absent = () if is_key else tuple(self._absent.get(schema.type, ()))
        if decode is not None:
            raw = self._absent[SchemaType.BYTES][0]
            absent = (*absent, *self._absent[None], b64encode(raw).decode())
        return replace(made, stand_in=default, absent=absent)
