"""Schemas of Kafka Connect, as frozen values. A struct's value is a plain mapping of field names to values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class SchemaType(Enum):
    """Connect's types, by the names that its JSON schemas use.

    >>> from fencepost.api import STRING, SchemaType
    >>> STRING.type is SchemaType.STRING
    True
    """

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
    """A value does not fit its schema, or a type has no schema.

    >>> from dataclasses import dataclass
    >>> from fencepost.api import Schema
    >>> @dataclass
    ... class Point:
    ...     at: complex
    >>> Schema.of_dataclass(Point)
    Traceback (most recent call last):
    fencepost.record.schema.SchemaError: Point.at: complex has no schema of its own; use str, ...
    """


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
    """The type of a value. `key_schema` is for maps, `value_schema` for arrays and maps, `fields` for structs.

    >>> from fencepost.api import FLOAT64, STRING, TIMESTAMP, Schema
    >>> price = Schema.struct({"symbol": STRING, "price": FLOAT64.optional(), "at": TIMESTAMP})
    >>> [field.name for field in price.fields]
    ['symbol', 'price', 'at']
    >>> Schema.array(STRING).value_schema == STRING
    True

    From a dataclass, or from Arrow:

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Price:
    ...     symbol: str
    ...     price: float | None
    >>> Schema.of_dataclass(Price) == Schema.struct({"symbol": STRING, "price": FLOAT64.optional()}, name="Price")
    True
    """

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
        """Return the schema of a struct. Its value is a mapping of the names to values."""
        members = tuple(Field(k, v) for k, v in fields.items())
        return cls(SchemaType.STRUCT, is_optional=is_optional, name=name, fields=members)

    @classmethod
    def array(cls, items: "Schema") -> "Schema":
        """Return the schema of a list."""
        return cls(SchemaType.ARRAY, value_schema=items)

    @classmethod
    def map(cls, keys: "Schema", values: "Schema") -> "Schema":
        """Return the schema of a dict whose entries all have the same types."""
        return cls(SchemaType.MAP, key_schema=keys, value_schema=values)

    @classmethod
    def of_dataclass(cls, of: Any, *, name: str | None = None) -> "Schema":
        """Return the schema of a dataclass: a struct with its fields.

        Annotations may be str, int (64 bits), float, bool, bytes, date, time, datetime, other dataclasses, lists and
        dicts of these, and each of them `| None`. Anything else, such as a decimal with its scale, is annotated with
        its schema: `Annotated[Decimal, decimal(2)]`. Raises SchemaError, which names the field.
        """
        from fencepost.record.type_table import schema_of_dataclass

        return schema_of_dataclass(of, name)

    @classmethod
    def of_arrow(cls, columns: Any, *, name: str | None = None) -> "Schema":
        """Return the schema of rows with the columns of a `pyarrow.Schema`: a struct with its fields.

        A column is optional if it is nullable, as Arrow's are by default. Unsigned integers get the next larger type.
        Raises SchemaError, which names the column, for types that Kafka Connect does not have.
        """
        from fencepost.record.type_table import schema_of_arrow

        return schema_of_arrow(columns, name)

    def optional(self) -> "Schema":
        """Return this schema for values that may be None."""
        return replace(self, is_optional=True)

    def field(self, name: str) -> Field | None:
        """Return the field of a struct that has this name; None if there is none."""
        return next((f for f in self.fields if f.name == name), None)


STRING = Schema(SchemaType.STRING)
INT8 = Schema(SchemaType.INT8)
INT16 = Schema(SchemaType.INT16)
INT32 = Schema(SchemaType.INT32)
INT64 = Schema(SchemaType.INT64)
FLOAT32 = Schema(SchemaType.FLOAT32)
FLOAT64 = Schema(SchemaType.FLOAT64)
BOOLEAN = Schema(SchemaType.BOOLEAN)
BYTES = Schema(SchemaType.BYTES)

# Logical types: the name gives a plain type its meaning (values: date, time, datetime, Decimal).
DATE = Schema(SchemaType.INT32, name="org.apache.kafka.connect.data.Date", version=1)
TIME = Schema(SchemaType.INT32, name="org.apache.kafka.connect.data.Time", version=1)
TIMESTAMP = Schema(SchemaType.INT64, name="org.apache.kafka.connect.data.Timestamp", version=1)
DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
DECIMAL_PRECISION = "connect.decimal.precision"


def decimal(scale: int, precision: int | None = None) -> Schema:
    """Return the schema of decimal numbers with `scale` digits after the point, and up to `precision` digits in all.

    >>> from fencepost.api import Schema, decimal
    >>> Schema.struct({"total": decimal(2)}).fields[0].schema.parameters
    (('scale', '2'),)
    """
    parameters = (
        {"scale": str(scale)} if precision is None else {"scale": str(scale), DECIMAL_PRECISION: str(precision)}
    )
    return Schema(SchemaType.BYTES, name=DECIMAL_NAME, version=1, parameters=tuple(parameters.items()))
