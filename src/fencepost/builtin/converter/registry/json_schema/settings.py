"""How Connect's schemas and JSON Schema are mapped to one another, under Confluent's keys."""

from fencepost.api import LOW, one_of, setting
from fencepost.config import Config

NAMESPACE = "io.confluent.connect.json"
ONE_OF, ENUM = f"{NAMESPACE}.OneOf", f"{NAMESPACE}.Enum"
GENERAL_UNION, GENERAL_ENUM = "org.apache.kafka.connect.data.Union", "org.apache.kafka.connect.data.Enum"
GENERAL_FIELD = "connect_union_field_"
TYPE, INDEX, VERSION, PARAMETERS = "connect.type", "connect.index", "connect.version", "connect.parameters"
KEY, VALUE = "key", "value"


class JsonSchemaMapping(Config):
    """What the mapping keeps, and what it allows."""

    object_additional_properties: bool = setting(
        "object.additional.properties",
        default=True,
        doc="Whether the schema of a struct allows other properties than its fields.",
    )
    use_optional_for_nonrequired: bool = setting(
        "use.optional.for.nonrequired",
        default=False,
        doc="Read properties that are not required as optional fields, and write other fields as required.",
    )
    generalized_sum_type_support: bool = setting(
        "generalized.sum.type.support",
        default=False,
        importance=LOW,
        doc="Keep unions and enums in the form that all formats share.",
    )
    ignore_default_for_nullables: bool = setting(
        "ignore.default.for.nullables",
        default=False,
        importance=LOW,
        doc="Write a null as null where an optional field has a default, instead of as this default.",
    )
    flatten_singleton_unions: bool = setting(
        "flatten.singleton.unions", default=False, importance=LOW, doc="Read a union of one type as this type."
    )
    decimal_format: str = setting(
        "decimal.format",
        default="BASE64",
        check=one_of("BASE64", "NUMERIC"),
        importance=LOW,
        doc="How decimals are written: BASE64 of their digits as bytes, or NUMERIC. Both are read.",
    )
    fail_invalid_schema: bool = setting(
        "json.fail.invalid.schema",
        default=False,
        importance=LOW,
        doc="Check each value that is read against all rules of its JSON Schema, such as patterns and ranges.",
    )
