"""Converters of single numbers and booleans, as big-endian bytes."""

import struct
from typing import Any, ClassVar

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.any_place import AnyPlaceConverter
from fencepost.record import SchemaType


class _NumberConverter(AnyPlaceConverter):
    """Converts values of the type `kind`, packed as `layout`."""

    kind: ClassVar[SchemaType]
    layout: ClassVar[struct.Struct]
    python_types: ClassVar[tuple[type, ...]] = (int,)
    is_null_of_any_type: ClassVar[bool] = True

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and self.is_null_of_any_type:
            return None
        if schema is not None and schema.type is not self.kind:
            raise RecordError(f"Invalid schema type for {type(self).__name__}: {schema.type.name}")
        if value is None:
            return None
        if not isinstance(value, self.python_types) or isinstance(value, bool) is not (bool in self.python_types):
            raise RecordError(f"{type(self).__name__} is not compatible with objects of type {type(value).__name__}")
        try:
            return self.layout.pack(value)
        except (struct.error, OverflowError) as error:
            raise RecordError(f"{value} does not fit {self.kind.name}: {error}") from error

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        schema = Schema(self.kind, is_optional=True)
        if data is None:
            return schema, None
        if len(data) != self.layout.size:
            raise RecordError(f"Size of data received by {type(self).__name__} is not {self.layout.size}")
        return schema, self.layout.unpack(data)[0]


class BooleanConverter(_NumberConverter):
    """One byte, 0 or 1."""

    kind = SchemaType.BOOLEAN
    layout = struct.Struct(">?")
    python_types = (bool,)
    is_null_of_any_type = False  # in Kafka's class, too

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is not None and len(data) == 1 and data[0] > 1:
            raise RecordError("The byte of a boolean must be 0 or 1")
        return super().to_connect_data(topic, data)


class ShortConverter(_NumberConverter):
    """Two bytes."""

    kind = SchemaType.INT16
    layout = struct.Struct(">h")


class IntegerConverter(_NumberConverter):
    """Four bytes."""

    kind = SchemaType.INT32
    layout = struct.Struct(">i")


class LongConverter(_NumberConverter):
    """Eight bytes."""

    kind = SchemaType.INT64
    layout = struct.Struct(">q")


class FloatConverter(_NumberConverter):
    """Four bytes, IEEE 754."""

    kind = SchemaType.FLOAT32
    layout = struct.Struct(">f")
    python_types = (float, int)


class DoubleConverter(_NumberConverter):
    """Eight bytes, IEEE 754."""

    kind = SchemaType.FLOAT64
    layout = struct.Struct(">d")
    python_types = (float, int)
