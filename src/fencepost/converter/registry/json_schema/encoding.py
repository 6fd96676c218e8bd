"""Values of a schema as what `orjson` can encode, by functions that are compiled once for each schema.

Scalars are those of JsonConverter. A map whose keys are no text is an array of objects with `key` and `value`, and a
union is the value of its member.
"""

from collections.abc import Mapping
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.converter.json_encoding import Encode, EncodingOptions
from fencepost.converter.json_encoding import encoder as json_encoder
from fencepost.converter.logical import shown
from fencepost.converter.registry.json_schema.settings import (
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
    encode = _compound(schema, mapping, omits_unknown)
    absent = encode(schema.default) if schema.default is not None and is_replaced else None

    def encode_or_null(value: Any) -> Any:
        if value is not None:
            return encode(value)
        if absent is not None or schema.is_optional:
            return absent
        raise RecordError("Conversion error: null value for field that is required and has no default value")

    return encode_or_null


def _compound(schema: Schema, mapping: JsonSchemaMapping, omits_unknown: bool) -> Encode:
    if schema.type is SchemaType.STRUCT:
        is_union = schema.name in (ONE_OF, GENERAL_UNION) or GENERAL_UNION in dict(schema.parameters)
        make = _union if is_union else _struct
        return make(schema, mapping, omits_unknown)
    if schema.value_schema is None:
        raise RecordError("The schema of an array or map lacks the schema of its items")
    encode_item = encoder(schema.value_schema, mapping, omits_unknown=omits_unknown)
    if schema.type is SchemaType.ARRAY:
        return lambda value: [encode_item(item) for item in _of(list | tuple, schema, value)]
    if schema.key_schema is None:
        raise RecordError("The schema of a map lacks the schema of its keys")
    encode_key = encoder(schema.key_schema, mapping, omits_unknown=omits_unknown)
    if schema.key_schema.type is SchemaType.STRING and not schema.key_schema.is_optional:
        return lambda value: {encode_key(k): encode_item(v) for k, v in _of(Mapping, schema, value).items()}
    return lambda value: [{KEY: encode_key(k), VALUE: encode_item(v)} for k, v in _of(Mapping, schema, value).items()]


def _struct(schema: Schema, mapping: JsonSchemaMapping, omits_unknown: bool) -> Encode:
    members = [(field.name, encoder(field.schema, mapping, omits_unknown=omits_unknown)) for field in schema.fields]
    names = frozenset(field.name for field in schema.fields)

    def encode(value: Any) -> dict[str, Any]:
        if not names.issuperset(_of(Mapping, schema, value)) and not omits_unknown:
            raise RecordError(f"{sorted(set(value) - names)[0]} is not a valid field name")
        encoded = {}
        for name, encode_field in members:
            try:
                encoded[name] = encode_field(value.get(name))
            except RecordError as error:
                raise RecordError(f"{name}: {error}") from error
        return encoded

    return encode


def _union(schema: Schema, mapping: JsonSchemaMapping, omits_unknown: bool) -> Encode:
    members = {field.name: encoder(field.schema, mapping, omits_unknown=omits_unknown) for field in schema.fields}

    def encode(value: Any) -> Any:
        given = {name: item for name, item in _of(Mapping, schema, value).items() if item is not None}
        if not given and schema.is_optional:
            return None
        if len(given) != 1 or not given.keys() <= members.keys():
            raise RecordError(
                f"A value of a union needs one of its fields ({', '.join(members)}), but has "
                f"{', '.join(given) or 'none'}"
            )
        ((name, item),) = given.items()
        return members[name](item)

    return encode


def _of(kinds: Any, schema: Schema, value: Any) -> Any:
    if isinstance(value, kinds):
        return value
    raise RecordError(f"Invalid type for {schema.type.name}: {type(value).__name__} {shown(value)}")
