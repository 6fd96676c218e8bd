"""Values of a schema as what `orjson` can encode, by functions that are compiled once for each schema.

Scalars are those of JsonConverter. A map whose keys are no text is an array of objects with `key` and `value`, and a
union is the value of its member.
"""

from collections.abc import ItemsView
from typing import Any

from fencepost.api import Schema, SchemaType
from fencepost.builtin.converter import scalar
from fencepost.builtin.converter.compound import Encode, member_of_union, part, struct_encoder
from fencepost.builtin.converter.json_encoding import EncodingOptions, with_nulls
from fencepost.builtin.converter.json_encoding import encoder as json_encoder
from fencepost.builtin.converter.registry.json_schema.settings import (
    GENERAL_UNION,
    KEY,
    ONE_OF,
    VALUE,
    JsonSchemaMapping,
)

_COMPOUND = (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)


def encoder(schema: Schema, mapping: JsonSchemaMapping, *, omits_unknown: bool = False) -> Encode:
    """Return a function from a value of the schema to plain JSON values; it raises RecordError for a misfit.

    A field that a struct's schema lacks is refused, or left out where `omits_unknown`.
    """
    is_replaced = not (mapping.ignore_default_for_nullables and schema.is_optional)
    if schema.type not in _COMPOUND:
        return json_encoder(schema, EncodingOptions(mapping.decimal_format.upper() == "NUMERIC", is_replaced))
    return with_nulls(_compound(schema, mapping, omits_unknown), schema, is_replaced=is_replaced)


def is_union(schema: Schema) -> bool:
    """Return whether a struct is a union in JSON Schema: a value has one of its fields."""
    return schema.name in (ONE_OF, GENERAL_UNION) or GENERAL_UNION in dict(schema.parameters)


def has_text_keys(schema: Schema) -> bool:
    """Return whether a map is an object in JSON. Raises RecordError if it lacks the schema of its keys."""
    key = part(schema.key_schema)
    return key.type is SchemaType.STRING and not key.is_optional


def _compound(schema: Schema, mapping: JsonSchemaMapping, omits_unknown: bool) -> Encode:
    if schema.type is SchemaType.STRUCT:
        return (_union if is_union(schema) else _struct)(schema, mapping, omits_unknown)
    encode_item = encoder(part(schema.value_schema), mapping, omits_unknown=omits_unknown)
    if schema.type is SchemaType.ARRAY:
        return lambda value: [encode_item(item) for item in scalar.items(value)]
    encode_key = encoder(part(schema.key_schema), mapping, omits_unknown=omits_unknown)

    def entries(value: Any) -> ItemsView[Any, Any]:
        return scalar.mapping(value, SchemaType.MAP).items()

    if has_text_keys(schema):
        return lambda value: {encode_key(k): encode_item(v) for k, v in entries(value)}
    return lambda value: [{KEY: encode_key(k), VALUE: encode_item(v)} for k, v in entries(value)]


def _struct(schema: Schema, mapping: JsonSchemaMapping, omits_unknown: bool) -> Encode:
    members = [
        (field.name, field.name, encoder(field.schema, mapping, omits_unknown=omits_unknown)) for field in schema.fields
    ]
    return struct_encoder(members, omits_unknown=omits_unknown)


def _union(schema: Schema, mapping: JsonSchemaMapping, omits_unknown: bool) -> Encode:
    members = {field.name: encoder(field.schema, mapping, omits_unknown=omits_unknown) for field in schema.fields}

    def encode(value: Any) -> Any:
        given = member_of_union(value, members, is_optional=schema.is_optional)
        if given is None:
            return None
        name, item = given
        return members[name](item)

    return encode
