"""HoistField: wraps a key or value in a struct or map with one field."""

from collections.abc import Mapping

from fencepost.api import Record, Schema, setting
from fencepost.builtin.transform.side import SideTransform, both_sides, remembering
from fencepost.record import RecordColumns, StructColumn


class HoistField(SideTransform):
    """Wraps keys or values: in a struct if they have a schema, else in a map."""

    field: str = setting(
        "field", doc="Field name for the single field that will be created in the resulting struct or map."
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._remembered = remembering(lambda schema: Schema.struct({self.field: schema}))

    def apply(self, record: Record) -> Record | None:
        schema = self.side.schema_of(record)
        after = None if schema is None else self._remembered(schema)
        changed: Record = self.side.with_value(record, after, {self.field: self.side.value_of(record)})
        return changed

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        schema, values = self.side.column_of(batch)
        after = None if schema is None else self._remembered(schema)
        return self.side.with_column(batch, after, StructColumn({self.field: values}, len(batch)))


HoistFieldKey, HoistFieldValue = both_sides(HoistField, "Wraps record {side}s.")
