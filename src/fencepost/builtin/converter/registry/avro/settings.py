"""How Connect's schemas and Avro's are mapped to one another, under Confluent's keys."""

from fencepost.api import LOW, setting
from fencepost.config import Config


class AvroMapping(Config):
    """What the mapping keeps, and how it names things."""

    connect_meta_data: bool = setting(
        "connect.meta.data",
        default=True,
        importance=LOW,
        doc="Keep names, versions, parameters and defaults of Connect's schemas as properties of Avro's.",
    )
    enhanced_avro_schema_support: bool = setting(
        "enhanced.avro.schema.support",
        default=False,
        doc="Keep Avro's enums, and the namespaces of the members of unions.",
    )
    generalized_sum_type_support: bool = setting(
        "generalized.sum.type.support",
        default=False,
        importance=LOW,
        doc="Keep unions and enums in the form that all formats share.",
    )
    scrub_invalid_names: bool = setting(
        "scrub.invalid.names",
        default=False,
        importance=LOW,
        doc="Replace characters in names that Avro does not allow, instead of refusing the schema.",
    )
    discard_type_doc_default: bool = setting(
        "discard.type.doc.default",
        default=False,
        importance=LOW,
        doc="Leave out the documentation and the default of a type where it is a field's.",
    )
    ignore_default_for_nullables: bool = setting(
        "ignore.default.for.nullables",
        default=False,
        importance=LOW,
        doc="Write a null as null where an optional field has a default, instead of as this default.",
    )
    allow_optional_map_keys: bool = setting(
        "allow.optional.map.keys",
        default=False,
        importance=LOW,
        doc="Write a map with optional keys of text as a map of Avro; a null as a key is refused.",
    )
    flatten_singleton_unions: bool = setting(
        "flatten.singleton.unions",
        default=False,
        importance=LOW,
        doc="Read a union of one type as this type.",
    )
