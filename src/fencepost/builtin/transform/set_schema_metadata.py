"""SetSchemaMetadata: gives a schema a name, a version, or both."""

from collections.abc import Mapping
from dataclasses import replace

from fencepost.api import HIGH, Record, RecordError, Schema, Type, setting
from fencepost.builtin.transform.side import (
    NullReplacing,
    SideTransform,
    both_sides,
    defaults_of,
    fill_null_columns,
    fill_nulls,
    is_null,
    remembering,
)
from fencepost.record import RecordColumns, SchemaType, StructColumn


class SetSchemaMetadata(NullReplacing, SideTransform):
    """Sets the name and version of the schema of keys or values."""

    schema_name: str | None = setting("schema.name", default=None, importance=HIGH, doc="Schema name to set.")
    schema_version: int | None = setting(
        "schema.version", type=Type.INT, default=None, importance=HIGH, doc="Schema version to set."
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._renamed = remembering(self._with_metadata)

    def check_together(self) -> list[str]:
        if self.schema_name is None and self.schema_version is None:
            return ["Neither schema name nor version configured: set schema.name, schema.version, or both"]
        return []

    def apply(self, record: Record) -> Record | None:
        value, schema = self.side.value_of(record), self.side.schema_of(record)
        if schema is None:
            if value is None:
                return record
            raise RecordError("Schema required for [updating schema metadata]")
        if self.replace_null_with_default and schema.type is SchemaType.STRUCT and value is not None:
            value = dict(value)
            fill_nulls(value, defaults_of(schema))
        return self.side.with_value(record, self._renamed(schema), value)

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        schema, values = self.side.column_of(batch)
        if schema is None:
            return batch if is_null(values) else None
        if self.replace_null_with_default and schema.type is SchemaType.STRUCT and not is_null(values):
            structs = StructColumn.of_rows(values)
            if structs is None:
                return None
            columns = dict(structs.columns)
            fill_null_columns(columns, defaults_of(schema), len(batch))
            values = StructColumn(columns, len(batch))
        return self.side.with_column(batch, self._renamed(schema), values)

    def _with_metadata(self, schema: Schema) -> Schema:
        version = schema.version if self.schema_version is None else self.schema_version
        return replace(schema, name=self.schema_name or schema.name, version=version)


SetSchemaMetadataKey, SetSchemaMetadataValue = both_sides(
    SetSchemaMetadata, "Sets the name and version of {side} schemas."
)
