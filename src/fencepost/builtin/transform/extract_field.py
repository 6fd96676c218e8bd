"""ExtractField: replaces a key or value by one of its fields."""

from collections.abc import Mapping
from typing import Any

from fencepost.api import HIGH, Record, RecordError, Schema, setting
from fencepost.builtin.transform.field_path import FieldPath
from fencepost.builtin.transform.side import NullReplacing, SideTransform, both_sides, is_null, members
from fencepost.config.check import one_of
from fencepost.record import RecordColumns

_PURPOSE = "field extraction"


class ExtractField(NullReplacing, SideTransform):
    """Replaces a struct or map by one of its fields. A null stays null."""

    field: str = setting("field", doc="Field name to extract.")
    field_syntax_version: str = setting(
        "field.syntax.version",
        default="V1",
        check=one_of("V1", "V2"),
        importance=HIGH,
        doc="The syntax of `field`. V1: the name of a field at the root. V2: a path such as `a.b`, in which backticks "
        "surround names with dots.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._path = FieldPath(self.field, self.field_syntax_version)

    def check_together(self) -> list[str]:
        try:
            FieldPath(self.field, self.field_syntax_version)
        except ValueError as error:
            return [f"Invalid value {self.field} for configuration field: {error}"]
        return []

    def apply(self, record: Record) -> Record | None:
        value: Any = self.side.value_of(record)
        schema = self.side.schema_of(record)
        if value is not None:
            value = members(value, schema, _PURPOSE)
        after = None if schema is None else self._schema(schema)
        found = self._path.value_of(value, schema, fills_default=self.replace_null_with_default)
        changed: Record = self.side.with_value(record, after, found)
        return changed

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        schema, values = self.side.column_of(batch)
        after = None if schema is None else self._schema(schema)
        if is_null(values):
            return self.side.with_column(batch, after, values)
        found = self._path.column_of(values, schema, fills_default=self.replace_null_with_default)
        return None if found is None else self.side.with_column(batch, after, found)

    def _schema(self, schema: Schema) -> Schema:
        field = self._path.field_of(schema)
        if field is None:
            raise RecordError(f"Unknown field: {self.field}")
        return field.schema


ExtractFieldKey, ExtractFieldValue = both_sides(ExtractField, "Replaces record {side}s by one of their fields.")
