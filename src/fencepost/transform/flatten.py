"""Flatten: makes one struct or map of nested ones."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fencepost.api import ConnectRecord, RecordError, Schema, setting
from fencepost.record import Field, SchemaType
from fencepost.transform.side import KEY, VALUE, FieldTransform


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


class FlattenKey(Flatten):
    """Flattens record keys."""

    side = KEY


class FlattenValue(Flatten):
    """Flattens record values."""

    side = VALUE
