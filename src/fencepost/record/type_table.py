"""The type table: the names of each type in Connect, Arrow, Spark and Avro. Readers and writers of columns ask it.

A new type is a row of `TYPES`, a conversion of its values in the codecs that need one, and a row of the table of
`tests/unit/record/test_type_table.py`. Arrow's and Spark's types go by the names with which they print themselves.
"""

import datetime as dt
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fencepost.record import schema as s
from fencepost.record.java_integer import INTEGER_BITS
from fencepost.record.schema import Schema, SchemaError, SchemaType

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DIGITS = 38
"""The digits that a decimal column holds."""
_INSTANT = "timestamp[us, tz=UTC]"
_FAMILY = re.compile(r"\w+")
_LISTS = ("list", "large_list", "fixed_size_list")
_HINTS = (
    "use str, int, float, bool, bytes, date, time, datetime, a dataclass, a list or dict of these, each perhaps with "
    "| None, or give its schema: Annotated[Decimal, decimal(2)]"
)


class Type(NamedTuple):
    """One type. `schema` is Connect's, of values that are there; a decimal's has a scale and a precision, too."""

    schema: Schema
    arrow: str
    """The Arrow type of a column that is made of such values."""
    arrows: tuple[str, ...]
    """The families of all Arrow types that hold such values: the names without parameters."""
    sparks: tuple[str, ...]
    """The families of Spark's types."""
    avros: tuple[str, ...]
    """Avro's types and logical types."""
    hint: type | None = None
    """The annotation of a dataclass's field that has such values."""


TYPES = (
    Type(s.INT8, "int8", ("int8",), ("tinyint",), ()),
    Type(s.INT16, "int16", ("int16", "uint8"), ("smallint",), ()),
    Type(s.INT32, "int32", ("int32", "uint16"), ("int",), ("int",)),
    Type(s.INT64, "int64", ("int64", "uint32"), ("bigint",), ("long",), int),
    Type(s.FLOAT32, "float", ("float",), ("float",), ("float",)),
    Type(s.FLOAT64, "double", ("double",), ("double",), ("double",), float),
    Type(s.BOOLEAN, "bool", ("bool",), ("boolean",), ("boolean",), bool),
    Type(
        s.STRING, "string", ("string", "large_string", "string_view"), ("string", "varchar", "char"),
        # Without a value there is nothing to be wrong about, and any store has a column of text for it.
        ("string", "enum", "uuid", "null"), str,
    ),
    Type(
        s.BYTES, "binary", ("binary", "large_binary", "binary_view", "fixed_size_binary"), ("binary",),
        ("bytes", "fixed"), bytes,
    ),
    Type(s.DATE, "date32[day]", ("date32", "date64"), ("date",), ("date",), dt.date),
    Type(s.TIME, "time64[ns]", ("time32", "time64"), ("time",), ("time-millis", "time-micros"), dt.time),
    Type(
        s.TIMESTAMP, _INSTANT, ("timestamp",), ("timestamp", "timestamp_ntz"), ("timestamp-millis", "timestamp-micros"),
        dt.datetime,
    ),
    Type(
        s.decimal(0), "decimal128", ("decimal32", "decimal64", "decimal128", "decimal256"), ("decimal",), ("decimal",),
    ),
)  # fmt: skip
_BY_CONNECT = {(each.schema.name, each.schema.type): each for each in TYPES}
_BY_ARROW = {name: each for each in TYPES for name in each.arrows}
_BY_SPARK = {name: each for each in TYPES for name in each.sparks}
_BY_AVRO = {name: each for each in TYPES for name in each.avros}
_BY_PYTHON = {each.hint: each for each in TYPES if each.hint is not None}
_TEXT = _BY_SPARK["string"]


def of_connect(schema: Schema) -> Type | None:
    """Return the type of a schema's values; None for structs, arrays and maps. Unknown names have no meaning."""
    return _BY_CONNECT.get((schema.name, schema.type)) or _BY_CONNECT.get((None, schema.type))


def of_spark(name: str) -> Type | None:
    """Return the type with this simple name of Spark, such as `decimal(9,2)`; None for a compound or unknown one."""
    return _BY_SPARK.get(_family(name))


def whole_bits(name: str) -> int:
    """Return the width of the whole numbers of a type of Spark; 0 for any other type."""
    type_ = of_spark(name)
    return 0 if type_ is None or type_.schema.name else INTEGER_BITS.get(type_.schema.type, 0)


def of_arrow(kind: "pa.DataType") -> Type | None:
    """Return the type of an Arrow column's values; None for a compound or unknown one."""
    return _BY_ARROW.get(_family(str(kind)))


def arrow_of_avro(name: str) -> "pa.DataType":
    """Return the Arrow type for one of Avro's types or logical types, but for decimals."""
    return _arrow(_BY_AVRO[name])


def arrow_type(schema: Schema) -> "pa.DataType":
    """Return the Arrow type of a column of a Connect schema's values. Raises SchemaError if there is none."""
    import pyarrow as pa

    type_ = of_connect(schema)
    if type_ is not None and schema.name == s.DECIMAL_NAME:
        parameters = dict(schema.parameters)
        precision = min(int(parameters.get(s.DECIMAL_PRECISION, MOST_DIGITS)), MOST_DIGITS)
        return pa.decimal128(precision, int(parameters.get("scale", "0")))
    if type_ is not None:
        return _arrow(type_)
    if schema.type is SchemaType.STRUCT:
        return pa.struct([(field.name, arrow_type(field.schema)) for field in schema.fields])
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        return pa.list_(pa.field("element", arrow_type(schema.value_schema)))
    keys = schema.key_schema
    if keys is None or keys.type is not SchemaType.STRING or schema.value_schema is None:
        raise SchemaError("a map whose keys are not text has no column: read such values as bytes")
    return pa.map_(pa.string(), arrow_type(schema.value_schema))


def schema_of_arrow(columns: "pa.Schema", name: str | None = None) -> Schema:
    """Return the schema of rows with these columns. Raises SchemaError, which names the column."""
    return Schema.struct({field.name: _of_field(field, field.name, False) for field in columns}, name=name)


def schema_of_column(kind: "pa.DataType", where: str, *, is_of_spark: bool = False) -> Schema:
    """Return the schema of a column's values that are there. Raises SchemaError, which names the column `where`.

    `is_of_spark`: any part may be null, whatever is declared, and a decimal keeps its precision.
    """
    type_, family = of_arrow(kind), _family(str(kind))
    if type_ is not None:
        is_decimal = type_.schema.name == s.DECIMAL_NAME
        return s.decimal(kind.scale, kind.precision if is_of_spark else None) if is_decimal else type_.schema
    if family == "dictionary":
        return schema_of_column(kind.value_type, where, is_of_spark=is_of_spark)
    if family in _LISTS:
        return Schema.array(_of_field(kind.value_field, where, is_of_spark))
    if family == "map" and (not is_of_spark or of_arrow(kind.key_type) is _TEXT):
        keys = schema_of_column(kind.key_type, where, is_of_spark=is_of_spark)
        return Schema.map(keys, _of_field(kind.item_field, where, is_of_spark))
    if family == "struct":
        members = {member.name: _of_field(member, f"{where}.{member.name}", is_of_spark) for member in kind}
        return Schema.struct(members)
    raise SchemaError(f"column {where}: Kafka Connect has no type for Arrow's {kind}; cast the column")


def rows_of_arrow(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table or a record batch, with values that fit its `schema_of_arrow`.

    Connect's times have milliseconds: finer digits are cut off. Raises ValueError for a map that has a key twice.
    """
    import pyarrow as pa

    columns = pa.schema([field.with_type(_in_milliseconds(field.type)) for field in table.schema])
    rows: list[dict[str, Any]] = table.cast(columns, safe=False).to_pylist(maps_as_pydicts="strict")
    return rows


def schema_of_dataclass(of: type[Any], name: str | None = None) -> Schema:
    """Return the schema of a dataclass, named after the class unless `name` is given. Raises SchemaError."""
    if not (isinstance(of, type) and is_dataclass(of)):
        raise SchemaError(f"{of!r} is not a dataclass")
    hints = typing.get_type_hints(of, include_extras=True)
    members = {field.name: _of_hint(hints[field.name], f"{of.__name__}.{field.name}") for field in fields(of)}
    return Schema.struct(members, name=name or of.__name__)


def _of_field(field: "pa.Field", where: str, is_of_spark: bool) -> Schema:
    schema = schema_of_column(field.type, where, is_of_spark=is_of_spark)
    return schema.optional() if is_of_spark or field.nullable else schema


def _in_milliseconds(kind: "pa.DataType") -> "pa.DataType":
    """Return a type whose values can become Python's: those with nanoseconds cannot."""
    import pyarrow as pa

    match _family(str(kind)):
        case "timestamp":
            return pa.timestamp("ms", kind.tz)
        case "time32" | "time64":
            return pa.time32("ms")
        case "list":
            return pa.list_(kind.value_field.with_type(_in_milliseconds(kind.value_type)))
        case "struct":
            return pa.struct([member.with_type(_in_milliseconds(member.type)) for member in kind])
    return kind


def _family(name: str) -> str:
    found = _FAMILY.match(name)
    return name if found is None else found[0]


def _arrow(type_: Type) -> "pa.DataType":
    import pyarrow as pa

    return pa.timestamp("us", "UTC") if type_.arrow == _INSTANT else pa.type_for_alias(type_.arrow)


def _of_hint(hint: Any, where: str) -> Schema:
    if hint in _BY_PYTHON:
        return _BY_PYTHON[hint].schema
    if isinstance(hint, type) and is_dataclass(hint):
        return schema_of_dataclass(hint)
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
