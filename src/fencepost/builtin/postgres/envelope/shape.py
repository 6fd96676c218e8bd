"""One table: its topic, its schemas, and its rows as Connect values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fencepost.api import INT64, STRING, ArrowColumn, Schema, SchemaType, StructColumn
from fencepost.builtin.postgres.envelope import compound, name, unavailable
from fencepost.builtin.postgres.envelope.arrow import ConvertColumn
from fencepost.builtin.postgres.envelope.column_rule import ColumnRules
from fencepost.builtin.postgres.envelope.default import default_of
from fencepost.builtin.postgres.envelope.meaning import Kind, Meaning, meaning
from fencepost.builtin.postgres.envelope.selection import column_filter, key_columns
from fencepost.builtin.postgres.envelope.settings import PostgresSettings
from fencepost.builtin.postgres.envelope.source_block import SOURCE, TRANSACTION
from fencepost.postgres.catalog import Column, Table
from fencepost.postgres.pgoutput import UNCHANGED, Unchanged
from fencepost.record import Field

SESSION: Mapping[str, str] = {
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "extra_float_digits": "1",
    "intervalstyle": "postgres",
    "lc_monetary": "C",
    "timezone": "UTC",
}
"""The settings of sessions whose text is read, of COPY and of pgoutput alike."""

Text = str | None | Unchanged
Convert = Callable[[Any], Any]


class _Member(NamedTuple):
    """A field of a value or key."""

    at: int
    field: Field
    convert: Convert | None
    convert_column: ConvertColumn | None
    absent: Any
    """What stands for null. A required column is null only in an old row of which just the key is known."""
    unavailable: Any


class TableShape:
    """The records of one table. Values are given in the order of `table.columns`.

    `topic`, `key_schema` (None: the table has no key) and `envelope_schema` are Debezium's. `has_old_key` says whether
    old rows have the key: the replica identity may have other columns.
    """

    def __init__(self, table: Table, settings: PostgresSettings, rules: ColumnRules | None = None) -> None:
        self.table = table
        self.topic = name.topic(settings, table.schema, table.name)
        is_kept = column_filter(settings, table.schema, table.name)
        changed = ColumnRules(settings) if rules is None else rules
        names = [column.name for column in table.columns]
        own = key_columns(settings, table.schema, table.name, names) or _own_key(table)
        self.has_old_key = table.replica_identity == "f" or set(own) <= set(_identity(table))
        self._key = _members(table, [names.index(one) for one in own if one in names], settings, None)
        self._value = _members(table, [at for at, one in enumerate(names) if is_kept(one)], settings, changed)
        self.key_schema = _struct(settings, f"{self.topic}.Key", self._key) if self._key else None
        value_schema = _struct(settings, f"{self.topic}.Value", self._value).optional()
        self.envelope_schema = _envelope(name.schema_name(settings, f"{self.topic}.Envelope"), value_schema)
        self._plan = [(one.field.name, one.at, one.convert, one.absent) for one in self._value]

    def row(self, values: Sequence[Text]) -> dict[str, Any]:
        """Return the value of a row."""
        if UNCHANGED in values:
            return {one.field.name: _converted(one, values[one.at]) for one in self._value}
        return {
            name: absent if (value := values[at]) is None else value if convert is None else convert(value)
            for name, at, convert, absent in self._plan
        }

    def key(self, values: Sequence[Text]) -> dict[str, Any] | None:
        """Return the key of a row; None if the table has none."""
        return {one.field.name: _converted(one, values[one.at]) for one in self._key} if self._key else None

    def rows(self, columns: Sequence[Any], count: int) -> StructColumn:
        """Return the values of `count` rows, each column of which is given as an Arrow array of texts."""
        return StructColumn({one.field.name: _column(one, columns[one.at]) for one in self._value}, count)

    def keys(self, columns: Sequence[Any], count: int) -> StructColumn | None:
        """Return the keys of `count` rows."""
        members = {one.field.name: _column(one, columns[one.at]) for one in self._key}
        return StructColumn(members, count) if members else None


def _own_key(table: Table) -> tuple[str, ...]:
    """Return the columns of the primary key; without one, those of the first unique index, as Debezium does."""
    return table.key or next(iter(table.unique_keys), ())


def _identity(table: Table) -> tuple[str, ...]:
    return table.identity_key if table.replica_identity == "i" else table.key


def kind_of(column: Column) -> Kind:
    """Return the type of a column, below its domains."""
    is_domain = bool(column.domain_base_oid)
    return Kind(
        column.domain_base_name if is_domain else column.type_name,
        column.domain_base_modifier if is_domain else column.type_modifier,
        column.element_name if column.is_array else None,
        column.enum_values,
    )


def _column(member: _Member, texts: Any) -> Sequence[Any]:
    convert = member.convert
    if member.absent is None or not texts.null_count:
        found = texts if convert is None else member.convert_column and member.convert_column(texts)
        if found is not None:
            return ArrowColumn(found)
    return [member.absent if text is None else text if convert is None else convert(text) for text in texts.to_pylist()]


def _converted(member: _Member, value: Text) -> Any:
    if value is None:
        return member.absent
    if isinstance(value, Unchanged):
        return member.unavailable
    return value if member.convert is None else member.convert(value)


def _members(
    table: Table, indexes: list[int], settings: PostgresSettings, rules: ColumnRules | None
) -> tuple[_Member, ...]:
    found = []
    for index in indexes:
        column = table.columns[index]
        kind = kind_of(column)
        read = meaning(kind, settings)
        if read is None:
            continue
        default = None if column.domain_base_oid else default_of(kind, read, column.default)
        schema, change = read.schema, None
        if rules is not None:
            dotted = f"{table.schema}.{table.name}"
            schema, change = rules(dotted, column.name, kind, column.type_name, schema)
        is_optional = not (column.not_null or column.name in table.key)
        schema = replace(schema, is_optional=is_optional, default=default)
        missing = None if is_optional else (read.missing if default is None else default)
        absent = _unavailable(kind, read, settings)
        convert, convert_column = read.convert, read.convert_column
        if change is not None:
            convert, convert_column = _chain(convert, change), None
            missing, absent = change(missing), change(absent)  # a mask covers null, too
        field = Field(name.field_name(settings, column.name), schema)
        found.append(_Member(index, field, convert, convert_column, missing, missing if absent is None else absent))
    return tuple(found)


def _chain(first: Convert | None, second: Convert) -> Convert:
    return second if first is None else lambda text: second(first(text))


def _unavailable(kind: Kind, read: Meaning, settings: PostgresSettings) -> Any:
    """Return what stands for a large value that is not sent; None where a type has nothing that could."""
    raw = settings.placeholder
    if kind.element is not None:
        return unavailable.as_items(raw).get(kind.element)
    if kind.name == "hstore":
        pairs = unavailable.as_pairs(raw)
        return pairs if read.schema.type is SchemaType.MAP else compound.pairs_json(pairs)
    values = {SchemaType.STRING: unavailable.as_text(raw), SchemaType.BYTES: raw}
    return values.get(read.schema.type) if _can_hold(kind) else None


def _can_hold(kind: Kind) -> bool:
    return kind.name not in ("numeric", "bit", "varbit")


def _struct(settings: PostgresSettings, full_name: str, members: tuple[_Member, ...]) -> Schema:
    fields = tuple(one.field for one in members)
    return Schema(SchemaType.STRUCT, name=name.schema_name(settings, full_name), fields=fields)


def _envelope(full_name: str, value: Schema) -> Schema:
    fields = {
        "before": value,
        "after": value,
        "source": SOURCE,
        "transaction": TRANSACTION,
        "op": STRING,
        **dict.fromkeys(("ts_ms", "ts_us", "ts_ns"), INT64.optional()),
    }
    return replace(Schema.struct(fields, name=full_name), version=2)
