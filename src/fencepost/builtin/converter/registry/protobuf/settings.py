"""How Connect's schemas and Protobuf's messages are mapped to one another, under Confluent's keys."""

from fencepost.api import LOW, setting
from fencepost.config import Config

NAMESPACE = "io.confluent.connect.protobuf"
TAG, UNION, ENUM = f"{NAMESPACE}.Tag", f"{NAMESPACE}.Union", f"{NAMESPACE}.Enum"
DEFAULT_NAME = "ConnectDefault"
CONNECT_TYPE = "connect.type"
DECIMAL, DATE, TIME, TIMESTAMP = (
    "confluent.type.Decimal",
    "google.type.Date",
    "google.type.TimeOfDay",
    "google.protobuf.Timestamp",
)
DEFAULT_PRECISION = 64


class ProtobufMapping(Config):
    """What the mapping keeps."""

    optional_for_nullables: bool = setting(
        "optional.for.nullables",
        default=False,
        doc="Write optional fields with the label `optional`, which keeps nulls. Without it, a null is read as zero.",
    )
    optional_for_proto2: bool = setting(
        "optional.for.proto2", default=True, importance=LOW, doc="Read fields that are not required as optional."
    )
    int_for_enums: bool = setting(
        "int.for.enums", default=False, importance=LOW, doc="Read enums as numbers instead of names."
    )
    generate_index_for_unions: bool = setting(
        "generate.index.for.unions",
        default=True,
        importance=LOW,
        doc="Add a number to the name of the field that a oneof becomes.",
    )
    scrub_invalid_names: bool = setting(
        "scrub.invalid.names",
        default=False,
        importance=LOW,
        doc="Replace characters in names that Protobuf does not allow, instead of refusing the schema.",
    )
