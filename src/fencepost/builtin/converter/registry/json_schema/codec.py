"""Values as plain JSON values and back, by functions that are compiled once for each schema.

Scalars are those of JsonConverter. A map whose keys are no text is an array of objects with `key` and `value`, and a
union is the value of its member.
"""

from collections.abc import Callable, ItemsView
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter import connect_value
from fencepost.builtin.converter.connect_value import (
    LOGICAL_TYPES,
    Encode,
    member_of_union,
    part,
    shown,
    struct_encoder,
)
from fencepost.builtin.converter.json_decoding import decode as decode_scalar
from fencepost.builtin.converter.json_encoding import EncodingOptions, with_nulls
from fencepost.builtin.converter.json_encoding import encoder as json_encoder
from fencepost.builtin.converter.registry.settings import (
    GENERAL_UNION,
    KEY,
    ONE_OF,
    VALUE,
    JsonSchemaMapping,
)
from fencepost.record.type_table import DECIMAL_NAME, INTEGER_BITS

_COMPOUND = (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)


def encoder(schema: Schema, mapping: JsonSchemaMapping, *, omits_unknown: bool = False) -> Encode:
    """Return a function from a value of the schema to plain JSON values; it raises RecordError for a misfit.

    A field that a struct's schema lacks is refused, or left out where `omits_unknown`.
    """
    is_replaced = not (mapping.ignore_default_for_nullables and schema.is_optional)
    if schema.type not in _COMPOUND:
        return json_encoder(schema, EncodingOptions(mapping.decimal_format.upper() == "NUMERIC", is_replaced))
    return with_nulls(_compound_encoder(schema, mapping, omits_unknown), schema, is_replaced=is_replaced)


def is_union(schema: Schema) -> bool:
    """Return whether a struct is a union in JSON Schema: a value has one of its fields."""
    return schema.name in (ONE_OF, GENERAL_UNION) or GENERAL_UNION in dict(schema.parameters)


def has_text_keys(schema: Schema) -> bool:
    """Return whether a map is an object in JSON. Raises RecordError if it lacks the schema of its keys."""
    key = part(schema.key_schema)
    return key.type is SchemaType.STRING and not key.is_optional


def _compound_encoder(schema: Schema, mapping: JsonSchemaMapping, omits_unknown: bool) -> Encode:
    if schema.type is SchemaType.STRUCT:
        return (_union_encoder if is_union(schema) else _struct_encoder)(schema, mapping, omits_unknown)
    encode_item = encoder(part(schema.value_schema), mapping, omits_unknown=omits_unknown)
    if schema.type is SchemaType.ARRAY:
        return lambda value: [encode_item(item) for item in connect_value.items(value)]
    encode_key = encoder(part(schema.key_schema), mapping, omits_unknown=omits_unknown)

    def entries(value: Any) -> ItemsView[Any, Any]:
        return connect_value.mapping(value, SchemaType.MAP).items()

    if has_text_keys(schema):
        return lambda value: {encode_key(k): encode_item(v) for k, v in entries(value)}
    return lambda value: [{KEY: encode_key(k), VALUE: encode_item(v)} for k, v in entries(value)]


def _struct_encoder(schema: Schema, mapping: JsonSchemaMapping, omits_unknown: bool) -> Encode:
    members = [
        (field.name, field.name, encoder(field.schema, mapping, omits_unknown=omits_unknown)) for field in schema.fields
    ]
    return struct_encoder(members, omits_unknown=omits_unknown)


def _union_encoder(schema: Schema, mapping: JsonSchemaMapping, omits_unknown: bool) -> Encode:
    members = {field.name: encoder(field.schema, mapping, omits_unknown=omits_unknown) for field in schema.fields}

    def encode(value: Any) -> Any:
        given = member_of_union(value, members, is_optional=schema.is_optional)
        if given is None:
            return None
        name, item = given
        return members[name](item)

    return encode


Decode = Callable[[Any], Any]

_JSON = {SchemaType.BOOLEAN: bool, SchemaType.STRING: str, SchemaType.BYTES: str}


def decoder(schema: Schema) -> Decode:
    """Return a function from parsed JSON to a value of the schema; it raises RecordError for a misfit."""
    decode = _compound(schema) if schema.type in _COMPOUND else _scalar(schema)
    default, is_optional = schema.default, schema.is_optional

    def decode_or_null(value: Any) -> Any:
        if value is not None:
            return decode(value)
        if default is not None or is_optional:
            return default
        raise RecordError(f"Invalid null value for required {schema.type.name} field")

    return decode_or_null


def _scalar(schema: Schema) -> Decode:
    if schema.name in LOGICAL_TYPES or schema.type not in _CHECKED:
        return lambda value: decode_scalar(schema, value)
    kind = _CHECKED[schema.type]

    def decode(value: Any) -> Any:
        return value if type(value) is kind else decode_scalar(schema, value)

    return decode


_CHECKED: dict[SchemaType, type] = {
    SchemaType.BOOLEAN: bool,
    SchemaType.STRING: str,
    SchemaType.FLOAT64: float,
}


def _compound(schema: Schema) -> Decode:
    if schema.type is SchemaType.STRUCT:
        return _union(schema) if is_union(schema) else _struct(schema)
    decode_item = decoder(part(schema.value_schema))
    if schema.type is SchemaType.ARRAY:
        return lambda value: [decode_item(item) for item in _of(list, "Arrays should be encoded as JSON arrays", value)]
    decode_key = decoder(part(schema.key_schema))
    if has_text_keys(schema):
        text = "Maps with string fields should be encoded as JSON objects"
        return lambda value: {decode_key(k): decode_item(v) for k, v in _of(dict, text, value).items()}
    text = "Maps with non-string fields should be encoded as JSON arrays of objects with key and value"
    return lambda value: {
        decode_key(_of(dict, text, entry).get(KEY)): decode_item(entry.get(VALUE)) for entry in _of(list, text, value)
    }


def _struct(schema: Schema) -> Decode:
    members = [(field.name, decoder(field.schema)) for field in schema.fields]

    def decode(value: Any) -> dict[str, Any]:
        get = _of(dict, "Structs should be encoded as JSON objects", value).get
        decoded = {}
        for name, decode_field in members:
            try:
                decoded[name] = decode_field(get(name))
            except RecordError as error:
                raise RecordError(f"{name}: {error}") from error
        return decoded

    return decode


def _union(schema: Schema) -> Decode:
    members = [(field.name, field.schema, decoder(field.schema)) for field in schema.fields]
    nothing = dict.fromkeys(field.name for field in schema.fields)

    def decode(value: Any) -> dict[str, Any]:
        scores = [_score(member, value) for _, member, _ in members]
        best = max(range(len(members)), key=scores.__getitem__, default=0)
        if not scores or scores[best] < 0:
            raise RecordError(f"Did not find matching oneof field for data: {shown(value)}")
        name, _, decode_member = members[best]
        return {**nothing, name: decode_member(value)}

    return decode


def _score(schema: Schema, value: Any) -> int:
    """Return how well a value fits a member of a union: -1 not at all; a struct the better, the more fields it has."""
    kind = schema.type
    if kind is SchemaType.STRUCT and not is_union(schema):
        if not isinstance(value, dict):
            return -1
        needed = [
            field.name for field in schema.fields if not field.schema.is_optional and field.schema.default is None
        ]
        known = sum(field.name in value for field in schema.fields)
        return known if all(name in value for name in needed) else -1
    if kind in (SchemaType.ARRAY, SchemaType.MAP):
        is_list = kind is SchemaType.ARRAY or not has_text_keys(schema)
        return 0 if isinstance(value, list if is_list else dict) else -1
    if kind in INTEGER_BITS:
        return 1 if isinstance(value, int) and not isinstance(value, bool) else -1
    if kind in (SchemaType.FLOAT32, SchemaType.FLOAT64) or schema.name == DECIMAL_NAME:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return 0 if is_number or (schema.name == DECIMAL_NAME and isinstance(value, str)) else -1
    return 0 if isinstance(value, _JSON.get(kind, dict)) else -1


def _of(kind: type, text: str, value: Any) -> Any:
    if isinstance(value, kind):
        return value
    raise RecordError(f"{text}, but found {type(value).__name__} {shown(value)}")
