"""The type table: the names of each type in Connect, Arrow, Spark and Avro. Readers and writers of columns ask it.

A new type is a row of `TYPES`, a conversion of its values in the codecs that need one, and a row of the table of
`tests/unit/record/test_type_table.py`. Arrow's and Spark's types go by the names with which they print themselves.
"""

import datetime as dt
import re
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


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


INTEGER_BITS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
DATE_NAME, TIME_NAME, TIMESTAMP_NAME, DECIMAL_NAME = (
    f"org.apache.kafka.connect.data.{name}" for name in ("Date", "Time", "Timestamp", "Decimal")
)
MOST_DIGITS = 38
"""The digits that a decimal column holds."""
_INSTANT = "timestamp[us, tz=UTC]"
_FAMILY = re.compile(r"\w+")


class Type(NamedTuple):
    """One type, by the type and the name of Connect's schema; that of a decimal has a scale and a precision, too."""

    connect: SchemaType
    name: str | None
    arrow: str
    """The Arrow type of a column that is made of such values."""
    arrows: tuple[str, ...]
    """The families of all Arrow types that hold such values: the names without parameters."""
    sparks: tuple[str, ...]
    """The families of Spark's types."""
    avros: tuple[str, ...]
    """Avro's types and logical types."""
    hint: type[Any] | None = None
    """The annotation of a dataclass's field that has such values."""


TYPES = (
    Type(SchemaType.INT8, None, "int8", ("int8",), ("tinyint",), ()),
    Type(SchemaType.INT16, None, "int16", ("int16", "uint8"), ("smallint",), ()),
    Type(SchemaType.INT32, None, "int32", ("int32", "uint16"), ("int",), ("int",)),
    Type(SchemaType.INT64, None, "int64", ("int64", "uint32"), ("bigint",), ("long",), int),
    Type(SchemaType.FLOAT32, None, "float", ("float",), ("float",), ("float",)),
    Type(SchemaType.FLOAT64, None, "double", ("double",), ("double",), ("double",), float),
    Type(SchemaType.BOOLEAN, None, "bool", ("bool",), ("boolean",), ("boolean",), bool),
    Type(
        SchemaType.STRING, None, "string", ("string", "large_string", "string_view"), ("string", "varchar", "char"),
        # Without a value there is nothing to be wrong about, and any store has a column of text for it.
        ("string", "enum", "uuid", "null"), str,
    ),
    Type(
        SchemaType.BYTES, None, "binary", ("binary", "large_binary", "binary_view", "fixed_size_binary"), ("binary",),
        ("bytes", "fixed"), bytes,
    ),
    Type(SchemaType.INT32, DATE_NAME, "date32[day]", ("date32", "date64"), ("date",), ("date",), dt.date),
    Type(
        SchemaType.INT32, TIME_NAME, "time64[ns]", ("time32", "time64"), ("time",),
        ("time-millis", "time-micros"), dt.time,
    ),
    Type(
        SchemaType.INT64, TIMESTAMP_NAME, _INSTANT, ("timestamp",), ("timestamp", "timestamp_ntz"),
        ("timestamp-millis", "timestamp-micros"), dt.datetime,
    ),
    Type(
        SchemaType.BYTES, DECIMAL_NAME, "decimal128", ("decimal32", "decimal64", "decimal128", "decimal256"),
        ("decimal",), ("decimal",),
    ),
)  # fmt: skip
_BY_CONNECT = {(each.name, each.connect): each for each in TYPES}
_BY_ARROW = {name: each for each in TYPES for name in each.arrows}
_BY_SPARK = {name: each for each in TYPES for name in each.sparks}
_BY_AVRO = {name: each for each in TYPES for name in each.avros}
BY_HINT = {each.hint: each for each in TYPES if each.hint is not None}


def of_connect(type_: SchemaType, name: str | None) -> Type | None:
    """Return the type of values with this type and name in Connect; None for structs, arrays and maps.

    A name that the table lacks has no meaning.
    """
    return _BY_CONNECT.get((name, type_)) or _BY_CONNECT.get((None, type_))


def of_spark(name: str) -> Type | None:
    """Return the type with this simple name of Spark, such as `decimal(9,2)`; None for a compound or unknown one."""
    return _BY_SPARK.get(family(name))


def whole_bits(name: str) -> int:
    """Return the width of the whole numbers of a type of Spark; 0 for any other type."""
    type_ = of_spark(name)
    return 0 if type_ is None or type_.name else INTEGER_BITS.get(type_.connect, 0)


def of_arrow(kind: "pa.DataType") -> Type | None:
    """Return the type of an Arrow column's values; None for a compound or unknown one."""
    return _BY_ARROW.get(family(str(kind)))


def arrow_of_avro(name: str) -> "pa.DataType":
    """Return the Arrow type for one of Avro's types or logical types, but for decimals."""
    return plain_arrow_type(_BY_AVRO[name])


def rows_of_arrow(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table or a record batch, with values that fit its `schema_of_arrow`.

    Connect's times have milliseconds: finer digits are cut off. Raises ValueError for a map that has a key twice.
    """
    import pyarrow as pa

    columns = pa.schema([field.with_type(_in_milliseconds(field.type)) for field in table.schema])
    rows: list[dict[str, Any]] = table.cast(columns, safe=False).to_pylist(maps_as_pydicts="strict")
    return rows


def _in_milliseconds(kind: "pa.DataType") -> "pa.DataType":
    """Return a type whose values can become Python's: those with nanoseconds cannot."""
    import pyarrow as pa

    match family(str(kind)):
        case "timestamp":
            return pa.timestamp("ms", kind.tz)
        case "time32" | "time64":
            return pa.time32("ms")
        case "list":
            return pa.list_(kind.value_field.with_type(_in_milliseconds(kind.value_type)))
        case "struct":
            return pa.struct([member.with_type(_in_milliseconds(member.type)) for member in kind])
    return kind


def family(name: str) -> str:
    found = _FAMILY.match(name)
    return name if found is None else found[0]


def plain_arrow_type(type_: Type) -> "pa.DataType":
    import pyarrow as pa

    return pa.timestamp("us", "UTC") if type_.arrow == _INSTANT else pa.type_for_alias(type_.arrow)
