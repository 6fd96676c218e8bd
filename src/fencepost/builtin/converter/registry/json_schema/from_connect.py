"""The JSON Schema of a Connect schema, as Confluent's JsonSchemaData makes it."""

from dataclasses import replace
from typing import Any

from fencepost.api import Schema, SchemaType
from fencepost.builtin.converter.compound import part
from fencepost.builtin.converter.registry.json_schema.encoding import encoder, has_text_keys, is_union
from fencepost.builtin.converter.registry.json_schema.settings import (
    ENUM,
    GENERAL_ENUM,
    INDEX,
    KEY,
    PARAMETERS,
    TYPE,
    VALUE,
    VERSION,
    JsonSchemaMapping,
)
from fencepost.record.type_table import DECIMAL_NAME

_SIMPLE: dict[SchemaType, dict[str, Any]] = {
    SchemaType.INT8: {"type": "integer", TYPE: "int8"},
    SchemaType.INT16: {"type": "integer", TYPE: "int16"},
    SchemaType.INT32: {"type": "integer", TYPE: "int32"},
    SchemaType.INT64: {"type": "integer", TYPE: "int64"},
    SchemaType.FLOAT32: {"type": "number", TYPE: "float32"},
    SchemaType.FLOAT64: {"type": "number", TYPE: "float64"},
    SchemaType.BOOLEAN: {"type": "boolean"},
    SchemaType.STRING: {"type": "string"},
    SchemaType.BYTES: {"type": "string", TYPE: "bytes"},
}


def from_connect(schema: Schema, mapping: JsonSchemaMapping) -> dict[str, Any]:
    """Return the JSON of the schema. Raises RecordError for a schema that cannot be expressed."""
    return _type(schema, mapping, is_member=False)


def _type(schema: Schema, mapping: JsonSchemaMapping, *, is_member: bool) -> dict[str, Any]:
    if schema.type is SchemaType.STRUCT and is_union(schema):
        members = [_type(field.schema, mapping, is_member=True) for field in schema.fields]
        return {"oneOf": [{"type": "null"}, *members] if schema.is_optional else members}
    made = _bare(schema, mapping) | _properties(schema, mapping)
    return made if is_member or not schema.is_optional else {"oneOf": [{"type": "null"}, made]}


def _bare(schema: Schema, mapping: JsonSchemaMapping) -> dict[str, Any]:
    if schema.type is SchemaType.ARRAY:
        return {"type": "array", "items": _type(part(schema.value_schema), mapping, is_member=False)}
    if schema.type is SchemaType.MAP:
        return _map(schema, mapping)
    if schema.type is SchemaType.STRUCT:
        return _struct(schema, mapping)
    if schema.name == DECIMAL_NAME and mapping.decimal_format.upper() == "NUMERIC":
        return {"type": "number", TYPE: "bytes"}
    symbols = _symbols(schema, mapping)
    return {"enum": symbols} if symbols else _SIMPLE[schema.type]


def _map(schema: Schema, mapping: JsonSchemaMapping) -> dict[str, Any]:
    values = _type(part(schema.value_schema), mapping, is_member=False)
    if has_text_keys(schema):
        return {"type": "object", TYPE: "map", "additionalProperties": values}
    properties = {
        KEY: {**_type(part(schema.key_schema), mapping, is_member=False), INDEX: 0},
        VALUE: {**values, INDEX: 1},
    }
    return {"type": "array", TYPE: "map", "items": {"type": "object", "properties": properties}}


def _struct(schema: Schema, mapping: JsonSchemaMapping) -> dict[str, Any]:
    properties = {
        field.name: {**_type(field.schema, mapping, is_member=False), INDEX: index}
        for index, field in enumerate(schema.fields)
    }
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if not mapping.object_additional_properties:
        made["additionalProperties"] = False
    required = [field.name for field in schema.fields if not field.schema.is_optional]
    if mapping.use_optional_for_nonrequired and required:
        made["required"] = required
    return made


def _symbols(schema: Schema, mapping: JsonSchemaMapping) -> list[str]:
    parameter = GENERAL_ENUM if mapping.generalized_sum_type_support else ENUM
    prefix = f"{parameter}."
    if schema.type is not SchemaType.STRING or parameter not in dict(schema.parameters):
        return []
    return [key.removeprefix(prefix) for key, _ in schema.parameters if key.startswith(prefix)]


def _properties(schema: Schema, mapping: JsonSchemaMapping) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if schema.name is not None:
        found["title"] = schema.name
    if schema.doc is not None:
        found["description"] = schema.doc
    if schema.default is not None:
        found["default"] = encoder(replace(schema, default=None), mapping)(schema.default)
    if schema.version is not None:
        found[VERSION] = schema.version
    parameters = {key: value for key, value in schema.parameters if not key.startswith((ENUM, GENERAL_ENUM))}
    if parameters:
        found[PARAMETERS] = parameters
    return found
