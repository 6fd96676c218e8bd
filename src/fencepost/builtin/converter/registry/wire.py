"""How the id of a schema travels with a value: before it (0, then four bytes), or as a GUID in a header (1, 16 bytes).

A Protobuf payload begins with the place of its message, which the id in a header includes.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from fencepost.api import RecordError

ID_MAGIC, GUID_MAGIC = 0, 1
_PREFIX = struct.Struct(">BI")
_GUID_SIZE = 17
PREFIX_SIZE = _PREFIX.size
KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"


class SchemaKey(NamedTuple):
    """What names a schema in the registry: its id, or its GUID where the id is not known."""

    id: int | None = None
    guid: UUID | None = None

    def __str__(self) -> str:
        return f"GUID {self.guid}" if self.id is None else f"id {self.id}"


class Framed(NamedTuple):
    """The schema of a value, and where the payload is: the bytes from `start` on, after `lead` (from a header)."""

    key: SchemaKey
    start: int
    lead: bytes = b""


def prefix(schema_id: int) -> bytes:
    """Return the bytes before a payload."""
    return _PREFIX.pack(ID_MAGIC, schema_id)


def guid_header(guid: UUID, lead: bytes = b"") -> bytes:
    """Return the value of the header that names a schema; `lead` is the place of a Protobuf message."""
    return bytes([GUID_MAGIC]) + guid.bytes + lead


def framed(data: bytes, header: bytes | None = None) -> Framed:
    """Return the schema of a value. `header` is the value's header with an id, if it has one.

    Raises RecordError for bytes that were not written with a registry.
    """
    if header is not None:
        key, start = _key_of(header, "the header with the schema's id")
        return Framed(key, 0, header[start:])
    return Framed(*_key_of(data, "the value"))


def _key_of(data: bytes, what: str) -> tuple[SchemaKey, int]:
    if data[:1] == b"\x00" and len(data) >= PREFIX_SIZE:
        return SchemaKey(_PREFIX.unpack_from(data)[1]), PREFIX_SIZE
    if data[:1] == b"\x01" and len(data) >= _GUID_SIZE:
        return SchemaKey(guid=UUID(bytes=bytes(data[1:_GUID_SIZE]))), _GUID_SIZE
    raise RecordError(
        f"Unknown magic byte: {what} does not begin with the id of a schema but with 0x{bytes(data[:5]).hex()} "
        f"({len(data)} bytes). The record was not written with a schema registry; read it with another converter"
    )


def common_id(column: Sequence[bytes]) -> int | None:
    """Return the id of the schema that all values begin with, or None if they do not share one."""
    first = column[0][:PREFIX_SIZE]
    if len(first) < PREFIX_SIZE or first[0] != ID_MAGIC or not all(each.startswith(first) for each in column):
        return None
    found: int = _PREFIX.unpack(first)[1]
    return found
