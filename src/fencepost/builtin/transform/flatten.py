"""Flatten: makes one struct or map of nested ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fencepost.api import ConnectRecord, RecordError, Schema, setting
from fencepost.builtin.transform.side import Columns, FieldTransform, both_sides, filled, is_null
from fencepost.record import Field, RecordColumns, Repeated, SchemaType, StructColumn


class Flatten(FieldTransform):
    """Joins the names of nested fields. Arrays and what they contain stay as they are."""

    purpose = "flattening"

    delimiter: str = setting(
        "delimiter",
        default=".",
        doc="Delimiter to insert between field names from the input record when generating field names for the output "
        "record.",
    )

    def changed_fields(self, record: ConnectRecord, schema: Schema | None, fields: dict[str, Any]) -> dict[str, Any]:
        pairs = self._entries(fields, "") if schema is None else self._leaves(schema, fields, "")
        return dict(pairs)

    def changed_columns(self, batch: RecordColumns, schema: Schema | None, fields: Columns) -> Columns | None:
        found: Columns = {}
        if schema is None:
            is_flat = self._flatten_maps(fields, "", found)
        else:
            is_flat = self._flatten_structs(schema, StructColumn(fields, len(batch)), "", found)
        return found if is_flat else None

    def changed_members(self, schema: Schema) -> tuple[Field, ...]:
        return tuple(self._members(schema, "", schema.is_optional, schema.default))

    def _entries(self, fields: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for name, value in fields.items():
            if isinstance(value, Mapping):
                yield from self._entries(value, self._name(prefix, name))
            else:
                yield self._name(prefix, name), value

    def _leaves(self, schema: Schema, struct: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        """Yield the fields of a struct, its null fields as their defaults; nothing for a struct that is null."""
        for field in schema.fields:
            value = struct.get(field.name)
            if value is None:
                value = field.schema.default
            name = self._name(prefix, field.name)
            if field.schema.type is not SchemaType.STRUCT:
                yield name, value
            elif value is not None:
                yield from self._leaves(field.schema, value, name)

    def _flatten_maps(self, fields: Mapping[str, Sequence[Any]], prefix: str, found: Columns) -> bool:
        """Add the columns of the entries of nested maps. False: some rows have other entries than others."""
        for name, column in fields.items():
            if not _has_maps(column):
                found[self._name(prefix, name)] = column
                continue
            maps = StructColumn.of_rows(column)
            if maps is None or not self._flatten_maps(maps.columns, self._name(prefix, name), found):
                return False
        return True

    def _flatten_structs(self, schema: Schema, structs: StructColumn, prefix: str, found: Columns) -> bool:
        """Add the columns of the fields of nested structs. False: a struct is null in some rows and not in others."""
        for field in schema.fields:
            column = structs.columns.get(field.name, Repeated(None, len(structs)))
            if field.schema.default is not None:
                column = filled(column, field.schema.default)
            name = self._name(prefix, field.name)
            if field.schema.type is not SchemaType.STRUCT:
                found[name] = column
            elif len(column) and not is_null(column):
                nested = StructColumn.of_rows(column)
                if nested is None or not self._flatten_structs(field.schema, nested, name, found):
                    return False
        return True

    def _members(self, schema: Schema, prefix: str, is_optional: bool, default: Any) -> Iterator[Field]:
        """Yield the fields of a struct's schema; they are optional or have a default if the struct is or has."""
        for field in schema.fields:
            name, kind = self._name(prefix, field.name), field.schema.type
            optional = is_optional or field.schema.is_optional
            own = field.schema.default
            if own is None and default is not None:
                own = default.get(field.name)
            if kind is SchemaType.STRUCT:
                yield from self._members(field.schema, name, optional, own)
            elif kind is SchemaType.MAP:
                raise RecordError(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            else:
                yield Field(name, replace(field.schema, is_optional=optional, default=own))

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self.delimiter}{name}" if prefix else name


FlattenKey, FlattenValue = both_sides(Flatten, "Flattens record {side}s.")


def _has_maps(column: Sequence[Any]) -> bool:
    if isinstance(column, Repeated):
        return isinstance(column.value, Mapping)
    return isinstance(column, StructColumn) or any(issubclass(kind, Mapping) for kind in set(map(type, column)))
