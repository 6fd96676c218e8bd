"""ByteArrayConverter: bytes as they are."""

from collections.abc import Sequence
from typing import Any

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.any_place import AnyPlaceConverter
from fencepost.record import BinaryColumn, BytesColumn, HeaderBytes, HeaderColumn
from fencepost.record.schema import BYTES
from fencepost.record.type_table import SchemaType

OPTIONAL_BYTES = BYTES.optional()


class ByteArrayConverter(AnyPlaceConverter):
    """Passes bytes on unchanged; refuses anything else."""

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not SchemaType.BYTES:
            raise RecordError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise RecordError(f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}")

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return OPTIONAL_BYTES, data

    def to_header_column(self, headers: Sequence[Sequence[HeaderBytes]]) -> HeaderColumn | None:
        return HeaderColumn(headers)

    def from_header_column(self, headers: HeaderColumn) -> Sequence[Sequence[HeaderBytes]] | None:
        return headers.raw

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        if schema is not None and schema.type is not SchemaType.BYTES:
            return None
        if isinstance(values, BinaryColumn | BytesColumn):
            return values
        return values if set(map(type, values)) <= {bytes, type(None)} else None

    def to_column(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        return OPTIONAL_BYTES, column
