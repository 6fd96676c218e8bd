"""Schemas of Kafka Connect, as frozen values. A struct's value is a plain mapping of field names to values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class SchemaType(Enum):
    """Connect's types, by the names that its JSON schemas use."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


class SchemaError(ValueError):
    """A value does not fit its schema."""


@dataclass(frozen=True)
class Field:
    """A named member of a struct."""

    name: str
    schema: "Schema"


def repeated_name(fields: Iterable[Field]) -> str | None:
    """Return the name of a field that is there twice, which a struct must not have."""
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            return field.name
        seen.add(field.name)
    return None


@dataclass(frozen=True)
class Schema:
    """The type of a value. `key_schema` is for maps, `value_schema` for arrays and maps, `fields` for structs."""

    type: SchemaType
    is_optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    fields: tuple[Field, ...] = ()
    key_schema: "Schema | None" = None
    value_schema: "Schema | None" = None

    @classmethod
    def of(cls, type: SchemaType, *, is_optional: bool = False, name: str | None = None) -> "Schema":
        return cls(type, is_optional=is_optional, name=name)

    @classmethod
    def struct(cls, fields: Mapping[str, "Schema"], *, name: str | None = None, is_optional: bool = False) -> "Schema":
        members = tuple(Field(k, v) for k, v in fields.items())
        return cls(SchemaType.STRUCT, is_optional=is_optional, name=name, fields=members)

    def optional(self) -> "Schema":
        return replace(self, is_optional=True)

    def field(self, name: str) -> Field | None:
        return next((f for f in self.fields if f.name == name), None)


STRING = Schema(SchemaType.STRING)
INT32 = Schema(SchemaType.INT32)
INT64 = Schema(SchemaType.INT64)
FLOAT64 = Schema(SchemaType.FLOAT64)
BOOLEAN = Schema(SchemaType.BOOLEAN)
BYTES = Schema(SchemaType.BYTES)

# Logical types: the name gives a plain type its meaning (values: date, time, datetime, Decimal).
DATE = Schema(SchemaType.INT32, name="org.apache.kafka.connect.data.Date", version=1)
TIME = Schema(SchemaType.INT32, name="org.apache.kafka.connect.data.Time", version=1)
TIMESTAMP = Schema(SchemaType.INT64, name="org.apache.kafka.connect.data.Timestamp", version=1)
DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"


def decimal(scale: int) -> Schema:
    """Return the schema of decimal numbers with `scale` digits behind the point."""
    return Schema(SchemaType.BYTES, name=DECIMAL_NAME, version=1, parameters=(("scale", str(scale)),))
