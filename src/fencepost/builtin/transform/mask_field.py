"""MaskField: replaces the values of fields by nothing, or by a fixed text or number."""

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from fencepost.api import HIGH, LOW, ConnectRecord, RecordError, Schema, non_empty, setting
from fencepost.builtin.transform.side import (
    Columns,
    FieldTransform,
    NullReplacing,
    both_sides,
    convert_column,
    convert_field,
)
from fencepost.config.check import distinct
from fencepost.record import Field, RecordColumns, Repeated, SchemaType, StructColumn, Utf8Column
from fencepost.record.java_value import EPOCH, EPOCH_DAY, cut, float32
from fencepost.record.type_table import INTEGER_BITS

_EMPTY: dict[type, Any] = {
    bool: False,
    int: 0,
    float: 0.0,
    Decimal: Decimal(0),
    str: "",
    dt.datetime: EPOCH,
    dt.date: EPOCH_DAY,
    dt.time: dt.time(),
}


class MaskField(NullReplacing, FieldTransform):
    """Masks fields: with 0, false, an empty text or list, or 1970; with `replacement` if they are numbers or texts."""

    purpose = "mask fields"
    needs_value = True

    fields: list[str] = setting("fields", check=distinct(), importance=HIGH, doc="Names of fields to mask.")
    replacement: str | None = setting(
        "replacement",
        default=None,
        check=non_empty(),
        importance=LOW,
        doc="Custom value replacement, that will be applied to all 'fields' values (numeric or non-empty string values "
        "only).",
    )

    def changed_fields(self, record: ConnectRecord, schema: Schema | None, fields: dict[str, Any]) -> dict[str, Any]:
        for name in self.fields:
            convert_field(fields, schema, name, self._masked)
        return fields

    def changed_columns(self, batch: RecordColumns, schema: Schema | None, fields: Columns) -> Columns | None:
        for name in self.fields:
            convert_column(fields, schema, name, len(batch), self._masked_column)
        return fields

    def changed_members(self, schema: Schema) -> tuple[Field, ...]:
        return schema.fields

    def changed_schema(self, schema: Schema) -> Schema:
        return schema

    def _masked_column(self, schema: Schema | None, column: Sequence[Any]) -> Sequence[Any]:
        """Mask a column: what a value becomes depends only on its type."""
        kinds = {str} if isinstance(column, Utf8Column) else set(map(type, column))
        if len(kinds) == 1 and kinds <= {type(None), *_EMPTY} and not isinstance(column, StructColumn):
            return Repeated(self._masked(schema, column[0]), len(column))
        return [self._masked(schema, value) for value in column]

    def _masked(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        if self.replacement is not None:
            return _replaced(schema, value, self.replacement)
        if isinstance(value, Mapping) and (schema is None or schema.type is not SchemaType.STRUCT):
            return {}
        if isinstance(value, list | tuple):
            return []
        if type(value) not in _EMPTY:
            raise RecordError(f"Cannot mask value of type: {type(value).__name__}")
        return _EMPTY[type(value)]


MaskFieldKey, MaskFieldValue = both_sides(MaskField, "Masks fields of record {side}s.")


def _replaced(schema: Schema | None, value: Any, replacement: str) -> Any:
    """Return the replacement in the type of a value; an integer is cut to its bits, as Java does."""
    if isinstance(value, str):
        return replacement
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise RecordError(f"Cannot mask value of type {type(value).__name__} with custom replacement.")
    try:
        number = Decimal(replacement)
        if isinstance(value, int):
            return cut(int(number), INTEGER_BITS.get(SchemaType.INT64 if schema is None else schema.type, 64))
        if isinstance(value, Decimal):
            return number
        is_short = schema is not None and schema.type is SchemaType.FLOAT32
        return float32(float(number)) if is_short else float(number)
    except (InvalidOperation, ValueError, OverflowError):
        raise RecordError(f"Unable to convert {replacement} to number") from None
