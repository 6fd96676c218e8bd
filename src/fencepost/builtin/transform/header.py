"""DropHeaders, InsertHeader and HeaderFrom: transforms of record headers."""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.api import HIGH, ConnectRecord, Header, Record, RecordError, Schema, Transform, non_empty, setting
from fencepost.builtin.transform.side import Columns, FieldTransform, NullReplacing, both_sides, filled, mapped
from fencepost.config.check import distinct, one_of
from fencepost.record import Field, HeaderColumn, RecordColumns, Repeated, StructColumn
from fencepost.record.literal import parsed_literal

_MOVE, _COPY = "move", "copy"


class DropHeaders(Transform):
    """Removes headers by their names."""

    headers: list[str] = setting(
        "headers", check=distinct(), importance=HIGH, doc="The names of the headers to be removed."
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._dropped = frozenset(self.headers)

    def apply(self, record: Record) -> Record | None:
        kept = self._kept(record.headers)
        return record if len(kept) == len(record.headers) else record.replace(headers=kept)

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        if isinstance(batch.headers, HeaderColumn):
            kept = [[pair for pair in pairs if pair[0] not in self._dropped] for pairs in batch.headers.raw]
            return batch.replace(headers=HeaderColumn(kept))
        return batch.replace(headers=mapped(self._kept, batch.headers))

    def _kept(self, headers: tuple[Header, ...]) -> tuple[Header, ...]:
        return tuple(header for header in headers if header.key not in self._dropped)


class InsertHeader(Transform):
    """Adds a header with a fixed value."""

    header: str = setting("header", importance=HIGH, doc="The name of the header.")
    value_literal: str = setting(
        "value.literal",
        importance=HIGH,
        doc="The literal value that is to be set as the header value on all records.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        schema, value = parsed_literal(self.value_literal)
        self._added = Header(self.header, value, schema)

    def apply(self, record: Record) -> Record | None:
        return record.replace(headers=(*record.headers, self._added))

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        return batch.replace(headers=mapped(lambda headers: (*headers, self._added), batch.headers))


class HeaderFrom(NullReplacing, FieldTransform):
    """Moves or copies fields of keys or values to headers."""

    purpose = "header move or copy"
    needs_value = True

    fields: list[str] = setting(
        "fields",
        check=non_empty(),
        importance=HIGH,
        doc="Field names in the record whose values are to be copied or moved to headers.",
    )
    headers: list[str] = setting(
        "headers",
        check=non_empty(),
        importance=HIGH,
        doc="Header names, in the same order as the field names listed in `fields`.",
    )
    operation: str = setting(
        "operation",
        check=one_of(_MOVE, _COPY, ignore_case=False),
        importance=HIGH,
        doc="Either `move` (the fields are removed from the key or value) or `copy` (they are kept).",
    )

    def check_together(self) -> list[str]:
        if len(self.fields) != len(self.headers):
            return ["'fields' config must have the same number of elements as 'headers' config."]
        return []

    def apply(self, record: Record) -> Record | None:
        changed = super().apply(record)
        assert changed is not None
        value, schema = self.side.value_of(record), self.side.schema_of(record)
        added = tuple(self._header(*pair, value, schema) for pair in zip(self.fields, self.headers, strict=True))
        return changed.replace(headers=(*record.headers, *added))

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        schema, values = self.side.column_of(batch)
        structs = StructColumn.of_rows(values)
        if structs is None:
            return None
        changed = super().apply_batch(self.side.with_column(batch, schema, structs))
        if changed is None:
            return None
        added = [
            self._header_column(*pair, structs, schema) for pair in zip(self.fields, self.headers, strict=True)
        ]  # fmt: skip
        rows = zip(batch.headers, zip(*added, strict=True), strict=True)
        return changed.replace(headers=[(*headers, *new) for headers, new in rows])

    def changed_fields(self, record: ConnectRecord, schema: Schema | None, fields: dict[str, Any]) -> dict[str, Any]:
        if self.operation == _MOVE:
            for name in self.fields:
                fields.pop(name, None)
        return fields

    def changed_columns(self, batch: RecordColumns, schema: Schema | None, fields: Columns) -> Columns | None:
        return {name: column for name, column in fields.items() if self.operation != _MOVE or name not in self.fields}

    def changed_members(self, schema: Schema) -> tuple[Field, ...]:
        return tuple(field for field in schema.fields if field.name not in self.fields)

    def changed_schema(self, schema: Schema) -> Schema:
        return super().changed_schema(schema) if self.operation == _MOVE else schema

    def _header_column(self, field: str, name: str, structs: StructColumn, schema: Schema | None) -> Sequence[Header]:
        column = structs.columns.get(field, Repeated(None, len(structs)))
        member = None if schema is None else self._member(field, schema)
        if member is not None and self.replace_null_with_default:
            column = filled(column, member.default)
        return mapped(lambda value: Header(name, value, member), column)

    def _header(self, field: str, name: str, value: Mapping[str, Any], schema: Schema | None) -> Header:
        found = value.get(field)
        if schema is None:
            return Header(name, found)
        member = self._member(field, schema)
        if found is None and self.replace_null_with_default:
            found = member.default
        return Header(name, found, member)

    def _member(self, field: str, schema: Schema) -> Schema:
        member = schema.field(field)
        if member is None:
            raise RecordError(f"Field does not exist: {field}")
        return member.schema


HeaderFromKey, HeaderFromValue = both_sides(HeaderFrom, "Moves or copies fields of record {side}s to headers.")
