"""The two sides of a record that a transform can work on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeVar

from fencepost.api import Config, ConnectRecord, Record, RecordError, Schema, Transform, setting
from fencepost.record import Field, RecordColumns, Repeated, SchemaType, StructColumn, TypedColumn, Utf8Column
from fencepost.record.schema import repeated_name

T = TypeVar("T")
V = TypeVar("V", bound="SideTransform")

Columns = dict[str, Sequence[Any]]
"""The fields of structs or maps, each as a column."""

Defaults = tuple[tuple[str, Any], ...]
"""Names of fields, with their defaults."""

REMEMBERED_SCHEMAS = 16


@dataclass(frozen=True)
class Side:
    """The key or the value of records: reads it and its schema, and replaces it; also the column of a batch."""

    value_of: Callable[[ConnectRecord], Any]
    schema_of: Callable[[ConnectRecord], Schema | None]
    with_value: Callable[[Record, Schema | None, Any], Record]
    column_of: Callable[[RecordColumns], TypedColumn]
    with_column: Callable[[RecordColumns, Schema | None, Sequence[Any]], RecordColumns]


KEY = Side(
    attrgetter("key"),
    attrgetter("key_schema"),
    lambda record, schema, key: record.with_key(schema, key),
    attrgetter("key"),
    lambda batch, schema, keys: batch.replace(key=TypedColumn(schema, keys)),
)
VALUE = Side(
    attrgetter("value"),
    attrgetter("value_schema"),
    lambda record, schema, value: record.with_value(schema, value),
    attrgetter("value"),
    lambda batch, schema, values: batch.replace(value=TypedColumn(schema, values)),
)


class _SchemaChange(NamedTuple):
    """A struct's schema after the transform, and its fields' defaults before."""

    after: Schema
    defaults: Defaults


class SideTransform(Transform):
    """Base of transforms that work on the key or the value of records. Their two variants set the `side`."""

    side: ClassVar[Side]


def both_sides(base: type[V], doc: str) -> tuple[type[V], type[V]]:
    """Return the variants of a transform for keys and for values; `{side}` in the docstring is one of these words."""
    key, value = (
        type(f"{base.__name__}{name}", (base,), {"__module__": base.__module__, "__doc__": text, "side": side})
        for name, side, text in (("Key", KEY, doc.format(side="key")), ("Value", VALUE, doc.format(side="value")))
    )
    return key, value


class NullReplacing(Config):
    """The setting of transforms that can leave null fields null although they have a default."""

    replace_null_with_default: bool = setting(
        "replace.null.with.default",
        default=True,
        doc="Whether a null in a field with a default becomes that default.",
    )


class FieldTransform(SideTransform):
    """Base of transforms that change fields of keys or values. Unless `needs_value`, a record without one passes.

    Subclasses define the new fields and the new schema of a struct.
    """

    purpose: ClassVar[str]
    needs_value: ClassVar[bool] = False

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._change_of = remembering(self._change)

    def changed_fields(self, record: ConnectRecord, schema: Schema | None, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the new fields of a struct, or of a map when `schema` is None; `fields` may be changed."""
        raise NotImplementedError

    def changed_columns(self, batch: RecordColumns, schema: Schema | None, fields: Columns) -> Columns | None:
        """Return the new fields of the structs or maps of a batch, as `changed_fields` does, or None to refuse it."""
        return None

    def changed_members(self, schema: Schema) -> tuple[Field, ...]:
        """Return the fields of the struct's schema after the transform."""
        raise NotImplementedError

    def changed_schema(self, schema: Schema) -> Schema:
        """Return the struct's schema after the transform, which is required and has no default, as Kafka copies it."""
        return replace(schema, fields=self.changed_members(schema), is_optional=False, default=None)

    def apply(self, record: Record) -> Record | None:
        value = self.side.value_of(record)
        if value is None and not self.needs_value:
            return record
        schema = self.side.schema_of(record)
        fields = members(value, schema, self.purpose)
        after = None
        if schema is not None:
            after, defaults = self._change_of(schema)
            fill_nulls(fields, defaults)
        return self.side.with_value(record, after, self.changed_fields(record, schema, fields))

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        schema, values = self.side.column_of(batch)
        if not self.needs_value and is_null(values):
            return batch
        structs = StructColumn.of_rows(values)
        if structs is None:
            return None
        fields, after = dict(structs.columns), None
        if schema is not None:
            after, defaults = self._change_of(schema)
            fill_null_columns(fields, defaults, len(batch))
        changed = self.changed_columns(batch, schema, fields)
        return None if changed is None else self.side.with_column(batch, after, StructColumn(changed, len(batch)))

    def _change(self, schema: Schema) -> _SchemaChange:
        if schema.type is not SchemaType.STRUCT:
            raise RecordError(f"Only Struct objects supported for [{self.purpose}], found: {schema.type.name}")
        after = self.changed_schema(schema)
        if (name := repeated_name(after.fields)) is not None:
            raise RecordError(
                f"The struct would have two fields of the name {name} after the {self.purpose}: rename one"
            )
        fills = not isinstance(self, NullReplacing) or self.replace_null_with_default
        return _SchemaChange(after, defaults_of(schema) if fills else ())


def remembering(change: Callable[[Schema], T]) -> Callable[[Schema], T]:
    """Return a function that returns what `change` does, and remembers it for the newest schemas."""
    remembered = lru_cache(REMEMBERED_SCHEMAS)(change)
    last: tuple[Schema, T] | None = None

    def of(schema: Schema) -> T:
        nonlocal last
        if last is not None and last[0] is schema:
            return last[1]
        try:
            changed = remembered(schema)
        except TypeError:  # a default that cannot be hashed, such as a list
            changed = change(schema)
        last = (schema, changed)
        return changed

    return of


def defaults_of(schema: Schema) -> Defaults:
    """Return the name and the default of each field that has one."""
    return tuple((f.name, f.schema.default) for f in schema.fields if f.schema.default is not None)


def fill_nulls(fields: dict[str, Any], defaults: Defaults) -> None:
    """Give the fields that are null or missing their defaults."""
    fields.update((name, default) for name, default in defaults if fields.get(name) is None)


def fill_null_columns(columns: Columns, defaults: Defaults, count: int) -> None:
    """Give the fields that are null or missing their defaults, in each of `count` rows."""
    for name, default in defaults:
        columns[name] = filled(columns.get(name, Repeated(None, count)), default)


def filled(column: Sequence[Any], default: Any) -> Sequence[Any]:
    """Return a column with a default in place of its nulls."""
    if isinstance(column, Repeated):
        return Repeated(default, len(column)) if column.value is None else column
    if isinstance(column, Utf8Column | StructColumn):  # has no nulls
        return column
    return [default if value is None else value for value in column]


def convert_field(
    fields: dict[str, Any], schema: Schema | None, name: str, convert: Callable[[Schema | None, Any], Any]
) -> None:
    """Convert a field, with its schema, of a struct that has it, or of a map, which then has it."""
    member = None if schema is None else schema.field(name)
    if schema is None or member is not None:
        fields[name] = convert(None if member is None else member.schema, fields.get(name))


def convert_column(
    columns: Columns,
    schema: Schema | None,
    name: str,
    count: int,
    convert: Callable[[Schema | None, Sequence[Any]], Sequence[Any]],
) -> None:
    """Convert a field, with its schema, of `count` structs that have it, or of maps, which then have it."""
    member = None if schema is None else schema.field(name)
    if schema is None or member is not None:
        columns[name] = convert(None if member is None else member.schema, columns.get(name, Repeated(None, count)))


def mapped(convert: Callable[[Any], Any], column: Sequence[Any]) -> Sequence[Any]:
    """Convert all values of a column; one that is the same in all rows only once. The results must be immutable."""
    if isinstance(column, Repeated):
        return Repeated(convert(column.value), len(column))
    return list(map(convert, column))


def is_null(column: Sequence[Any]) -> bool:
    """Say whether a column that is not empty has only nulls."""
    if isinstance(column, Repeated):
        return column.value is None and len(column) > 0
    return len(column) > 0 and column[0] is None and all(value is None for value in column)


def members(value: Any, schema: Schema | None, purpose: str) -> dict[str, Any]:
    """Return the fields of a struct, or the entries of a map without a schema. Raises RecordError for anything else."""
    if schema is not None and (schema.type is not SchemaType.STRUCT or not isinstance(value, Mapping)):
        found = schema.type.name if value is not None else "null"
        raise RecordError(f"Only Struct objects supported for [{purpose}], found: {found}")
    if not isinstance(value, Mapping):
        found = "null" if value is None else type(value).__name__
        raise RecordError(f"Only Map objects supported in absence of schema for [{purpose}], found: {found}")
    return dict(value)
