"""Names that Confluent's mapping gives things, and the properties in which it keeps what Avro has no place for."""

import re
from urllib.parse import quote_plus

from fencepost.record.schema import DECIMAL_PRECISION

NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = f"{NAMESPACE}.ConnectDefault"
MAP_ENTRY = "MapEntry"
KEY, VALUE = "key", "value"

AVRO_UNION, AVRO_ENUM = f"{NAMESPACE}.Union", f"{NAMESPACE}.Enum"
UNION, ENUM = "org.apache.kafka.connect.data.Union", "org.apache.kafka.connect.data.Enum"
UNION_FIELD = "connect_union_field_"

CONNECT_NAME, CONNECT_DOC, CONNECT_VERSION = "connect.name", "connect.doc", "connect.version"
CONNECT_DEFAULT, CONNECT_PARAMETERS, CONNECT_TYPE = "connect.default", "connect.parameters", "connect.type"
RECORD_DOC, ENUM_DOC, INTERNAL_TYPE = "connect.record.doc", "connect.enum.doc", "connect.internal.type"
FIXED_SIZE, PRECISION = "connect.fixed.size", DECIMAL_PRECISION
DEFAULT_PRECISION = 64

_START = re.compile(r"[A-Za-z_]")
_INVALID = re.compile(r"[^A-Za-z0-9_]")
_VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GENERATED = re.compile(re.escape(DEFAULT_NAME) + r"\d*")


def is_valid(name: str) -> bool:
    """Return whether Avro allows this as the name of a field or symbol, or a part of a full name."""
    return _VALID.fullmatch(name) is not None


def is_valid_full(name: str) -> bool:
    """Return whether Avro allows this as a full name, with dots between its parts."""
    return all(map(is_valid, name.split(".")))


def scrubbed(name: str) -> str:
    """Return a name with the characters that Avro does not allow replaced, as Confluent's converter does."""
    encoded = quote_plus(name, safe="*-._")
    if not _START.match(encoded):
        encoded = "x" + encoded
    return _INVALID.sub("_", encoded)


def scrubbed_full(name: str) -> str:
    """Return a full name, each part of which is scrubbed."""
    return ".".join(map(scrubbed, name.split(".")))


def is_generated(name: str) -> bool:
    """Return whether a record got its name because a struct had none."""
    return _GENERATED.fullmatch(name) is not None
