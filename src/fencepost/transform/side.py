"""The two sides of a record that a transform can work on."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar

from fencepost.api import RecordError, Schema, SourceRecord, Transform
from fencepost.record import SchemaType

REMEMBERED_SCHEMAS = 16


@dataclass(frozen=True)
class Side:
    """The key or the value of records, by the names of its fields."""

    value_field: str
    schema_field: str

    def with_value(self, record: SourceRecord, schema: Schema | None, value: Any) -> SourceRecord:
        """Return the record with another key or value."""
        return record.replace(**{self.schema_field: schema, self.value_field: value})


KEY = Side("key", "key_schema")
VALUE = Side("value", "value_schema")


class FieldTransform(Transform):
    """Base of transforms that change the fields of keys or values; a record without one passes untouched.

    Subclasses say what becomes of a mapping and of a struct's schema; their variants name the `side`.
    """

    side: ClassVar[Side]
    purpose: ClassVar[str]

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._value_of = attrgetter(self.side.value_field)
        self._schema_of = attrgetter(self.side.schema_field)
        self._changed_schema = lru_cache(REMEMBERED_SCHEMAS)(self.changed_schema)
        self._last: tuple[Schema | None, Schema | None] = (None, None)

    def changed_fields(self, record: SourceRecord, schema: Schema | None, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new fields of a struct, or of a map when `schema` is None."""
        raise NotImplementedError

    def changed_schema(self, schema: Schema) -> Schema:
        """Return the struct's schema as it is afterwards."""
        raise NotImplementedError

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        value = self._value_of(record)
        if value is None:
            return record
        schema: Schema | None = self._schema_of(record)
        if schema is not None and schema.type is not SchemaType.STRUCT:
            raise RecordError(f"Only Struct objects supported for [{self.purpose}], found: {schema.type.name}")
        if not isinstance(value, Mapping):
            raise RecordError(
                f"Only Map objects supported in absence of schema for [{self.purpose}], found: {type(value).__name__}"
            )
        fields = self.changed_fields(record, schema, value)
        return self.side.with_value(record, None if schema is None else self._remembered(schema), fields)

    def _remembered(self, schema: Schema) -> Schema:
        last, changed = self._last
        if last is schema and changed is not None:
            return changed
        try:
            changed = self._changed_schema(schema)
        except TypeError:  # a default that cannot be hashed, such as a list
            changed = self.changed_schema(schema)
        self._last = (schema, changed)
        return changed


def with_defaults(schema: Schema | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with the schema's defaults where they are null."""
    found = dict(fields)
    for field in () if schema is None else schema.fields:
        if field.schema.default is not None and found.get(field.name) is None:
            found[field.name] = field.schema.default
    return found
