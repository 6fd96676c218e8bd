"""Schemas of Kafka Connect, as frozen values. A struct's value is a plain mapping of field names to values."""

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from fencepost.record import type_table
from fencepost.record.type_table import DECIMAL_NAME, MOST_DIGITS, SchemaType, Type

if TYPE_CHECKING:
    import pyarrow as pa

_LISTS = ("list", "large_list", "fixed_size_list")
_HINTS = (
    "use str, int, float, bool, bytes, date, time, datetime, a dataclass, a list or dict of these, each perhaps with "
    "| None, or give its schema: Annotated[Decimal, decimal(2)]"
)


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
        if not (isinstance(of, type) and is_dataclass(of)):
            raise SchemaError(f"{of!r} is not a dataclass")
        hints = typing.get_type_hints(of, include_extras=True)
        members = {field.name: _of_hint(hints[field.name], f"{of.__name__}.{field.name}") for field in fields(of)}
        return cls.struct(members, name=name or of.__name__)

    @classmethod
    def of_arrow(cls, columns: Any, *, name: str | None = None) -> "Schema":
        """Return the schema of rows with the columns of a `pyarrow.Schema`: a struct with its fields.

        A column is optional if it is nullable, as Arrow's are by default. Unsigned integers get the next larger type.
        Raises SchemaError, which names the column, for types that Kafka Connect does not have.
        """
        return cls.struct({field.name: _of_field(field, field.name, False) for field in columns}, name=name)

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
DATE = Schema(SchemaType.INT32, name=type_table.DATE_NAME, version=1)
TIME = Schema(SchemaType.INT32, name=type_table.TIME_NAME, version=1)
TIMESTAMP = Schema(SchemaType.INT64, name=type_table.TIMESTAMP_NAME, version=1)
DECIMAL_PRECISION = "connect.decimal.precision"


def decimal(scale: int, precision: int | None = None) -> Schema:
    """Return the schema of decimal numbers with `scale` digits after the point, and up to `precision` digits in all.

    >>> from fencepost.api import Schema, decimal
    >>> Schema.struct({"total": decimal(2)}).fields[0].schema.parameters
    (('scale', '2'),)
    """
    precise = () if precision is None else ((DECIMAL_PRECISION, str(precision)),)
    return Schema(SchemaType.BYTES, name=DECIMAL_NAME, version=1, parameters=(("scale", str(scale)), *precise))


def schema_of(type_: Type) -> Schema:
    """Return the schema of a type's values that are there; a decimal has a scale and a precision, too."""
    return Schema(type_.connect, name=type_.name, version=None if type_.name is None else 1)


def arrow_type(schema: Schema) -> "pa.DataType":
    """Return the Arrow type of a column of a Connect schema's values. Raises SchemaError if there is none."""
    import pyarrow as pa

    type_ = type_table.of_connect(schema.type, schema.name)
    if type_ is not None and schema.name == DECIMAL_NAME:
        parameters = dict(schema.parameters)
        precision = min(int(parameters.get(DECIMAL_PRECISION, MOST_DIGITS)), MOST_DIGITS)
        return pa.decimal128(precision, int(parameters.get("scale", "0")))
    if type_ is not None:
        return type_table.plain_arrow_type(type_)
    if schema.type is SchemaType.STRUCT:
        return pa.struct([(field.name, arrow_type(field.schema)) for field in schema.fields])
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        return pa.list_(pa.field("element", arrow_type(schema.value_schema)))
    keys = schema.key_schema
    if keys is None or keys.type is not SchemaType.STRING or schema.value_schema is None:
        raise SchemaError("a map whose keys are not text has no column: read such values as bytes")
    return pa.map_(pa.string(), arrow_type(schema.value_schema))


def schema_of_column(kind: "pa.DataType", where: str, *, is_of_spark: bool = False) -> Schema:
    """Return the schema of a column's values that are there. Raises SchemaError, which names the column `where`.

    `is_of_spark`: any part may be null, whatever is declared, and a decimal keeps its precision.
    """
    type_, family = type_table.of_arrow(kind), type_table.family(str(kind))
    if type_ is not None:
        is_decimal = type_.name == DECIMAL_NAME
        return decimal(kind.scale, kind.precision if is_of_spark else None) if is_decimal else schema_of(type_)
    if family == "dictionary":
        return schema_of_column(kind.value_type, where, is_of_spark=is_of_spark)
    if family in _LISTS:
        return Schema.array(_of_field(kind.value_field, where, is_of_spark))
    if family == "map" and (not is_of_spark or type_table.of_arrow(kind.key_type) is type_table.BY_HINT[str]):
        keys = schema_of_column(kind.key_type, where, is_of_spark=is_of_spark)
        return Schema.map(keys, _of_field(kind.item_field, where, is_of_spark))
    if family == "struct":
        members = {member.name: _of_field(member, f"{where}.{member.name}", is_of_spark) for member in kind}
        return Schema.struct(members)
    raise SchemaError(f"column {where}: Kafka Connect has no type for Arrow's {kind}; cast the column")


def _of_field(field: "pa.Field", where: str, is_of_spark: bool) -> Schema:
    schema = schema_of_column(field.type, where, is_of_spark=is_of_spark)
    return schema.optional() if is_of_spark or field.nullable else schema


def _of_hint(hint: Any, where: str) -> Schema:
    if hint in type_table.BY_HINT:
        return schema_of(type_table.BY_HINT[hint])
    if isinstance(hint, type) and is_dataclass(hint):
        return Schema.of_dataclass(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        given = next((each for each in arguments[1:] if isinstance(each, Schema)), None)
        return given if given is not None else _of_hint(arguments[0], where)
    if origin in (typing.Union, types.UnionType):
        others = [each for each in arguments if each is not types.NoneType]
        if len(others) == 1 < len(arguments):
            return _of_hint(others[0], where).optional()
    if origin in (list, Sequence):
        return Schema.array(_of_hint(arguments[0], where))
    if origin in (dict, Mapping):
        return Schema.map(_of_hint(arguments[0], where), _of_hint(arguments[1], where))
    raise SchemaError(f"{where}: {getattr(hint, '__name__', hint)} has no schema of its own; {_HINTS}")
