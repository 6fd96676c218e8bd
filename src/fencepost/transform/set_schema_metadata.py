"""SetSchemaMetadata: gives a schema a name, a version, or both."""

from dataclasses import replace

from fencepost.api import HIGH, Record, RecordError, setting
from fencepost.record import SchemaType
from fencepost.transform.side import KEY, VALUE, NullReplacing, SideTransform, defaults_of


class SetSchemaMetadata(NullReplacing, SideTransform):
    """Sets the name and version of the schema of keys or values."""

    schema_name: str | None = setting("schema.name", default=None, importance=HIGH, doc="Schema name to set.")
    schema_version: int | None = setting("schema.version", default=None, importance=HIGH, doc="Schema version to set.")

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
        version = schema.version if self.schema_version is None else self.schema_version
        after = replace(schema, name=self.schema_name or schema.name, version=version)
        if self.replace_null_with_default and schema.type is SchemaType.STRUCT and value is not None:
            filled = {name: default for name, default in defaults_of(schema) if value.get(name) is None}
            value = {**value, **filled} if filled else value
        changed: Record = self.side.with_value(record, after, value)
        return changed


class SetSchemaMetadataKey(SetSchemaMetadata):
    """Sets the name and version of key schemas."""

    side = KEY


class SetSchemaMetadataValue(SetSchemaMetadata):
    """Sets the name and version of value schemas."""

    side = VALUE
