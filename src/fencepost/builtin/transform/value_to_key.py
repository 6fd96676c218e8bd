"""ValueToKey: makes a key of fields of the value."""

from typing import Any

from fencepost.api import HIGH, ConnectRecord, Record, RecordError, Schema, setting
from fencepost.builtin.transform.side import KEY, VALUE, Columns, FieldTransform, NullReplacing
from fencepost.config.check import distinct
from fencepost.record import Field, RecordColumns, Repeated


class ValueToKey(NullReplacing, FieldTransform):
    """Replaces the key by a struct or map with fields of the value."""

    side = VALUE
    purpose = "copying fields from value to key"
    needs_value = True

    fields: list[str] = setting(
        "fields",
        check=distinct(),
        importance=HIGH,
        doc="Field names on the record value to extract as the record key.",
    )

    def apply(self, record: Record) -> Record | None:
        copied = super().apply(record)
        assert copied is not None
        return record.with_key(copied.value_schema, copied.value)

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        copied = super().apply_batch(batch)
        return None if copied is None else KEY.with_column(batch, *copied.value)

    def changed_fields(self, record: ConnectRecord, schema: Schema | None, fields: dict[str, Any]) -> dict[str, Any]:
        return {name: fields.get(name) for name in self.fields}

    def changed_columns(self, batch: RecordColumns, schema: Schema | None, fields: Columns) -> Columns | None:
        return {name: fields.get(name, Repeated(None, len(batch))) for name in self.fields}

    def changed_members(self, schema: Schema) -> tuple[Field, ...]:
        found = [schema.field(name) for name in self.fields]
        for name, field in zip(self.fields, found, strict=True):
            if field is None:
                raise RecordError(f"Field does not exist: {name}")
        return tuple(field for field in found if field is not None)

    def changed_schema(self, schema: Schema) -> Schema:
        return Schema(schema.type, fields=self.changed_members(schema))
