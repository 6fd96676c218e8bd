"""The columns of a table that a sink writes: how values of records are compared with them."""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from fencepost.api import Schema, SchemaType
from fencepost.builtin.postgres.audit.form import Form, form_of
from fencepost.builtin.postgres.audit.table import ComparedColumn, ComparedTable
from fencepost.builtin.postgres.envelope.meaning import Kind, precision_and_scale
from fencepost.builtin.postgres.envelope.shape import kind_of
from fencepost.builtin.postgres.sink.settings import SinkSettings
from fencepost.builtin.postgres.sink.text import column_type, value_type
from fencepost.builtin.postgres.sink.unavailable import placeholders
from fencepost.postgres.catalog import Column
from fencepost.record.type_table import DECIMAL_NAME

_INTEGERS, _TEXTS = ("int2", "int4", "int8", "oid"), ("text", "varchar")
_KEYS = frozenset((*_INTEGERS, *_TEXTS, "bool", "bytea", "date", "numeric", "timestamp", "timestamptz", "uuid"))


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
