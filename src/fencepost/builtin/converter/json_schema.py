"""Connect schemas as JSON, in Kafka's order of members."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.json_decoding import decode
from fencepost.builtin.converter.json_encoding import EncodingOptions, encoder
from fencepost.record import Field, SchemaType
from fencepost.record.schema import repeated_name

_Part = Callable[[Any], Schema | None]
BY_NAME = {kind.value: kind for kind in SchemaType}


def schema_to_json(schema: Schema, options: EncodingOptions) -> dict[str, Any]:
    """Return the schema as the `schema` member of an envelope."""
    written: dict[str, Any] = {"type": schema.type.value}
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        written["items"] = schema_to_json(schema.value_schema, options)
    if schema.type is SchemaType.MAP and schema.key_schema is not None and schema.value_schema is not None:
        written["keys"] = schema_to_json(schema.key_schema, options)
        written["values"] = schema_to_json(schema.value_schema, options)
    if schema.type is SchemaType.STRUCT:
        written["fields"] = [{**schema_to_json(f.schema, options), "field": f.name} for f in schema.fields]
    written["optional"] = schema.is_optional
    for member, value in (("name", schema.name), ("version", schema.version), ("doc", schema.doc)):
        if value is not None:
            written[member] = value
    if schema.parameters:
        written["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        written["default"] = encoder(replace(schema, default=None), options)(schema.default)
    return written


def schema_from_json(written: Any, *, is_null_replaced: bool = True) -> Schema | None:
    """Return the schema in an envelope. Raises RecordError if it is not a schema.

    `is_null_replaced` says whether a null in a default becomes the default of that part.
    """

    def part(written: Any) -> Schema | None:
        return schema_from_json(written, is_null_replaced=is_null_replaced)

    if written is None:
        return None
    if not isinstance(written, dict) or not isinstance(written.get("type"), str):
        raise RecordError("Schema must contain 'type' field")
    kind = BY_NAME.get(written["type"])
    if kind is None:
        raise RecordError(f"Unknown schema type: {written['type']}")
    schema = Schema(
        kind,
        is_optional=written.get("optional") is True,
        name=_of_type(str, written.get("name")),
        version=_of_type(int, written.get("version")),
        doc=_of_type(str, written.get("doc")),
        parameters=_parameters(written.get("parameters")),
        fields=_fields(written.get("fields"), part) if kind is SchemaType.STRUCT else (),
        key_schema=_part(written, "keys", "Map schema did not specify the key type", part)
        if kind is SchemaType.MAP
        else None,
        value_schema=_items(written, kind, part),
    )
    default = written.get("default")
    if default is None:
        return schema
    return replace(schema, default=decode(schema, default, is_null_replaced=is_null_replaced))


def _items(written: dict[str, Any], kind: SchemaType, part: _Part) -> Schema | None:
    if kind is SchemaType.ARRAY:
        return _part(written, "items", "Array schema did not specify the element type", part)
    if kind is SchemaType.MAP:
        return _part(written, "values", "Map schema did not specify the value type", part)
    return None


def _part(written: dict[str, Any], member: str, fault: str, part: _Part) -> Schema | None:
    if written.get(member) is None:
        raise RecordError(fault)
    return part(written[member])


def _fields(written: Any, part: _Part) -> tuple[Field, ...]:
    if not isinstance(written, list):
        raise RecordError('Struct schema\'s "fields" argument is not an array.')
    fields = []
    for member in written:
        schema = part(member)
        if schema is None or not isinstance(member.get("field"), str):
            raise RecordError("Struct schema's field name not specified properly")
        fields.append(Field(member["field"], schema))
    if (name := repeated_name(fields)) is not None:
        raise RecordError(f"Cannot create field because of field name duplication {name}")
    return tuple(fields)


def _parameters(written: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(written, dict):
        return ()
    if not all(isinstance(value, str) for value in written.values()):
        raise RecordError("Schema parameters must have string values.")
    return tuple(written.items())


def _of_type(kind: type, value: Any) -> Any:
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
