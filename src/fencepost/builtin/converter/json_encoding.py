"""Values of a schema as JSON: one by one, or whole columns with one call of `orjson`.

An encoder is compiled once for a schema, into nested functions from values to what `orjson` can encode. Columns need no
look at each value if one look at all suffices. The values of all columns of rows are encoded in one call, with marks
between them. What all rows share, such as an envelope and the names of fields, is then put in place of the marks.
"""

import base64
import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter import connect_value
from fencepost.builtin.converter.connect_value import (
    LOGICAL_TYPES,
    Encode,
    has_many_zeros,
    part,
    scale_of,
    struct_encoder,
    unscaled,
    with_scale,
)
from fencepost.builtin.converter.json_arrow import bare, is_short_decimal, joined, quoted_decimals
from fencepost.builtin.converter.json_decoding import are_plain
from fencepost.record import ArrowColumn, BinaryColumn, Repeated, StructColumn, Utf8Column
from fencepost.record.binary_column import constant
from fencepost.record.java_value import EPOCH, MILLISECOND, shortest_float32
from fencepost.record.schema import TIMESTAMP
from fencepost.record.type_table import DECIMAL_NAME, INTEGER_BITS, SchemaType, of_arrow

_NULL_KEY = "null"  # as Kafka's converter writes it
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1  # the integers that orjson encodes


class EncodingOptions(NamedTuple):
    """The settings of the converter that change its output."""

    is_decimal_numeric: bool = False
    is_null_replaced: bool = True


def encoder(schema: Schema, options: EncodingOptions) -> Encode:
    """Return a function from a value of the schema to plain JSON values; it raises RecordError for a misfit."""
    return with_nulls(_present(schema, options), schema, is_replaced=options.is_null_replaced)


def with_nulls(encode: Encode, schema: Schema, *, is_replaced: bool) -> Encode:
    """Return the function for values that may be null: null, or the schema's default if that replaces them."""
    default = schema.default
    absent = encode(default) if default is not None and is_replaced else None

    def encode_or_null(value: Any) -> Any:
        if value is not None:
            return encode(value)
        if absent is not None or schema.is_optional:
            return absent
        raise RecordError("Conversion error: null value for field that is required and has no default value")

    return encode_or_null


def encode_schemaless(value: Any) -> Any:
    """Return plain JSON for a value that `orjson` does not support.

    It has bytes, integers of more than 64 bits, or maps with keys other than text.
    """
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: encode_schemaless(item) for key, item in value.items()}
        return [[encode_schemaless(key), encode_schemaless(item)] for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [encode_schemaless(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return orjson.Fragment(str(value))
    return value


def _present(schema: Schema, options: EncodingOptions) -> Encode:
    if options.is_decimal_numeric and schema.name == DECIMAL_NAME:
        return lambda value: orjson.Fragment(str(with_scale(schema, unscaled(schema, value))))  # 1.28E+5, as in Java
    encode = _plain(schema, options)
    logical = LOGICAL_TYPES.get(schema.name)
    if logical is None:
        return encode
    return lambda value: encode(logical.to_plain(schema, value))


def _plain(schema: Schema, options: EncodingOptions) -> Encode:
    kind = schema.type
    if kind in INTEGER_BITS:
        return connect_value.integer(schema, INTEGER_BITS[kind])
    if kind in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return _float32 if kind is SchemaType.FLOAT32 else _float
    if kind is SchemaType.STRUCT:
        return struct_encoder([(field.name, field.name, encoder(field.schema, options)) for field in schema.fields])
    if kind is SchemaType.ARRAY:
        encode = encoder(part(schema.value_schema), options)
        return lambda value: [encode(item) for item in connect_value.items(value)]
    if kind is SchemaType.MAP:
        return _map(schema, options)
    return {SchemaType.BOOLEAN: connect_value.boolean, SchemaType.STRING: connect_value.text, SchemaType.BYTES: _bytes}[
        kind
    ]


def _float(value: Any) -> float | str:
    number = connect_value.floating(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")


def _float32(value: Any) -> float | str:
    number = _float(value)
    try:
        return shortest_float32(number) if isinstance(number, float) else number
    except OverflowError:
        raise connect_value.misfit(SchemaType.FLOAT32, value) from None


def _bytes(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    raise RecordError(f"Invalid type for bytes type: {type(value).__name__}")


def _map(schema: Schema, options: EncodingOptions) -> Encode:
    key_schema = part(schema.key_schema)
    encode_key = encoder(key_schema, options)
    encode_value = encoder(part(schema.value_schema), options)
    is_object = key_schema.type is SchemaType.STRING

    def encode_map(value: Any) -> Any:
        pairs = [[encode_key(k), encode_value(v)] for k, v in connect_value.mapping(value, SchemaType.MAP).items()]
        return {_NULL_KEY if key is None else key: item for key, item in pairs} if is_object else pairs

    return encode_map


def decimal_fallback(value: Any) -> Any:
    """Encode a schemaless decimal as a number; for `orjson.dumps(default=…)`."""
    if isinstance(value, Decimal) and value.is_finite() and not has_many_zeros(value):
        return orjson.Fragment(format(value, "f"))
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(type(value).__name__)


# Separates values that are encoded together. JSON does not escape DEL, so counting shows whether a text contains one.
MARK = "\x7f"
MARK_BYTES = MARK.encode()

Column = Sequence[Any]
EncodeColumn = Callable[[Column], Column]
_EncodeDense = Callable[[Column, set[type]], Column | None]

_NONE = type(None)


def dumped_all(
    values: Sequence[Any],
    prefix: bytes = b"",
    suffix: bytes = b"",
    default: Callable[[Any], Any] = decimal_fallback,
) -> Sequence[bytes] | None:
    """Return the JSON of each value between `prefix` and `suffix`, or None if they cannot be encoded together.

    One call for all is six times faster than one each. `default` writes what orjson does not know. Raises TypeError for
    a value that JSON cannot hold.
    """
    return dumped_pieces([prefix, values, suffix], len(values), default)


def column_encoder(schema: Schema, options: EncodingOptions) -> EncodeColumn:
    """Return a function from a column of the schema's values to what `orjson` can encode, as `encoder` does for one.

    A column that is right as it is is returned itself. Raises RecordError for a misfit.
    """
    encode = encoder(schema, options)
    dense = _dense(schema, options)
    has_default = schema.default is not None and options.is_null_replaced

    def encode_column(column: Column) -> Column:
        kinds = set(map(type, column))
        if _NONE not in kinds:
            found = dense(column, kinds) if kinds else column
        elif has_default or not schema.is_optional:
            found = None
        else:
            present = [value for value in column if value is not None]
            found = _with_nulls(column, present, dense(present, kinds - {_NONE}) if present else present)
        return [encode(value) for value in column] if found is None else found

    return encode_column


def _with_nulls(column: Column, present: Column, encoded: Column | None) -> Column | None:
    """Return the encoded values with the nulls between them; None if the values could not be encoded together."""
    if encoded is None:
        return None
    if encoded is present:
        return column
    values = iter(encoded)
    return [None if value is None else next(values) for value in column]


def _dense(schema: Schema, options: EncodingOptions) -> _EncodeDense:
    """Return the encoder of a column without nulls; it returns None if its values must be encoded one by one."""
    if schema.name == TIMESTAMP.name and schema.type is TIMESTAMP.type:
        return lambda column, kinds: _milliseconds(column) if kinds == {dt.datetime} else None
    if schema.name in LOGICAL_TYPES:
        return lambda column, kinds: None
    if schema.type is SchemaType.STRUCT:
        return _structs(schema, options)
    return lambda column, kinds: column if are_plain(schema.type, column, kinds) else None


def _milliseconds(column: Column) -> Column | None:
    try:
        return [(value - EPOCH) // MILLISECOND for value in column]
    except TypeError:  # one that does not say where it is
        return None


def _structs(schema: Schema, options: EncodingOptions) -> _EncodeDense:
    names = tuple(field.name for field in schema.fields)
    encoders = [column_encoder(field.schema, options) for field in schema.fields]

    def encode_structs(column: Column, kinds: set[type]) -> Column | None:
        if kinds != {dict} or set(map(tuple, column)) != {names}:
            return None
        members = [list(map(itemgetter(name), column)) for name in names]
        encoded = [encode(member) for encode, member in zip(encoders, members, strict=True)]
        if all(one is member for one, member in zip(encoded, members, strict=True)):
            return column
        return [dict(zip(names, row, strict=True)) for row in zip(*encoded, strict=True)]

    return encode_structs


def is_plain(schema: Schema, column: Sequence[Any]) -> bool:
    """Say whether all values fit the schema and can be encoded as they are; False if that is unknown."""
    if schema.name in LOGICAL_TYPES:
        return False
    kinds = set(map(type, column))
    if type(None) in kinds:
        if not schema.is_optional or schema.default is not None:
            return False
        kinds.discard(type(None))
        column = [value for value in column if value is not None]
    if not kinds:
        return True
    if schema.type is SchemaType.STRUCT:
        return kinds == {dict} and _are_plain_structs(schema, column)
    return are_plain(schema.type, column, kinds)


def _are_plain_structs(schema: Schema, structs: Sequence[Any]) -> bool:
    names = tuple(field.name for field in schema.fields)
    if set(map(tuple, structs)) != {names}:
        return False
    return all(is_plain(field.schema, list(map(itemgetter(field.name), structs))) for field in schema.fields)


Piece = bytes | Sequence[Any]
"""A part of every row: a text that all rows share, or a column of values for `orjson`, one for each row."""


def dumped_pieces(
    pieces: Sequence[Piece], count: int, default: Callable[[Any], Any] = decimal_fallback
) -> Sequence[bytes] | None:
    """Return for each row all its pieces, one after the other, or None if they cannot be encoded together.

    Raises TypeError for a value that JSON cannot hold.
    """
    constants: list[bytes] = [b""]
    columns: list[Sequence[Any]] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            constants[-1] += piece
        else:
            columns.append(piece)
            constants.append(b"")
    if not count:
        return []
    if MARK_BYTES in b"".join(constants):
        return None
    if not columns:
        return Repeated(constants[0], count)
    if any(isinstance(column, ArrowColumn) for column in columns):
        return _joined(constants, columns, count, default)
    width = 2 * len(columns)
    marks = [f"{MARK}{place or ''}" for place in range(len(columns))]
    marked: list[Any] = [None] * (width * count)
    for place, column in enumerate(columns):
        marked[2 * place :: width] = column
        marked[2 * place + 1 :: width] = [marks[place]] * count
    written = orjson.dumps(marked, default=default)
    if written.count(MARK_BYTES) != len(columns) * count:
        return None
    written = constants[0] + written[1 : -len(f',"{marks[-1]}"]')] + constants[-1]
    constants[-1] += MARK_BYTES + constants[0]
    for place, mark in enumerate(marks):
        written = written.replace(f',"{mark}",'.encode(), constants[place + 1])
    return written.split(MARK_BYTES)


def _joined(
    constants: Sequence[bytes], columns: Sequence[Sequence[Any]], count: int, default: Callable[[Any], Any]
) -> Sequence[bytes] | None:
    """Return the rows as one Arrow array, in which Arrow writes the columns that it can.

    A `BinaryColumn` has JSON already.
    """
    import pyarrow as pa

    arrays: list[Any] = []
    texts = list(constants)
    for at, column in enumerate(columns):
        own, quote = None, b""
        if isinstance(column, BinaryColumn):
            own = column.array
        elif isinstance(column, ArrowColumn):
            own, quote = bare(column.array)
        texts[at], texts[at + 1] = texts[at] + quote, quote + texts[at + 1]
        if own is None:
            dumped = dumped_pieces([list(column)], count, default)
            if dumped is None:
                return None
            own = pa.array(dumped, pa.binary())
        arrays.append(own)
    between = [piece for text, own in zip(texts[1:], arrays, strict=True) for piece in (own, constant(text))]
    return joined([constant(texts[0]), *between])


def _is_written_as_it_is(schema: Schema | None, column: ArrowColumn, options: EncodingOptions) -> bool:
    """Say whether all values of a column fit its schema, and need no change for JSON."""
    kind = of_arrow(column.array.type)
    if kind is None or kind.name is not None or kind.connect in (SchemaType.BYTES, SchemaType.FLOAT32):
        return False
    if kind.connect is SchemaType.FLOAT64 and not _are_finite(column.array):
        return False
    if schema is None:
        return True
    is_plain_type = schema.type is kind.connect and schema.name not in LOGICAL_TYPES
    return is_plain_type and _has_right_nulls(schema, column, options)


def _is_short_decimal(schema: Schema, column: ArrowColumn, options: EncodingOptions) -> bool:
    """Say whether a column has decimals of a decimal schema's scale, which are written in Base64."""
    if schema.name != DECIMAL_NAME or options.is_decimal_numeric or not is_short_decimal(column.array.type):
        return False
    return bool(column.array.type.scale == scale_of(schema)) and _has_right_nulls(schema, column, options)


def _has_right_nulls(schema: Schema, column: ArrowColumn, options: EncodingOptions) -> bool:
    is_null_kept = schema.is_optional and (schema.default is None or not options.is_null_replaced)
    return is_null_kept or not column.null_count


def _are_finite(numbers: Any) -> bool:
    import pyarrow.compute as pc

    return pc.all(pc.is_finite(numbers)).as_py() is not False


def pieces_of(schema: Schema | None, column: Sequence[Any], options: EncodingOptions) -> list[Piece]:
    """Return the pieces of the JSON of a column. Raises RecordError for a row that does not fit the schema."""
    if isinstance(column, Repeated):
        value = column.value if schema is None else encoder(schema, options)(column.value)
        return [orjson.dumps(value, default=decimal_fallback)]
    if isinstance(column, StructColumn):
        if schema is None:
            return _members([(name, None, each) for name, each in column.columns.items()], options)
        if schema.type is SchemaType.STRUCT and schema.name not in LOGICAL_TYPES:
            return _members(_of_fields(schema, column), options)
    if isinstance(column, Utf8Column) and (schema is None or schema.type is SchemaType.STRING):
        return [column.texts()]
    if isinstance(column, ArrowColumn):
        if _is_written_as_it_is(schema, column, options):
            return [column]
        if schema is not None and _is_short_decimal(schema, column, options):
            return [BinaryColumn(quoted_decimals(column.array))]
        column = list(column)
    return [column if schema is None else column_encoder(schema, options)(column)]


def _of_fields(schema: Schema, structs: StructColumn) -> list[tuple[str, Schema | None, Sequence[Any]]]:
    known = {field.name for field in schema.fields}
    unknown = [name for name in structs.columns if name not in known]
    if unknown:
        raise RecordError(f"{sorted(unknown)[0]} is not a valid field name")
    nothing = Repeated(None, len(structs))
    return [(field.name, field.schema, structs.columns.get(field.name, nothing)) for field in schema.fields]


def _members(fields: Sequence[tuple[str, Schema | None, Sequence[Any]]], options: EncodingOptions) -> list[Piece]:
    pieces: list[Piece] = []
    opening = b"{"
    for name, schema, column in fields:
        pieces += [opening + orjson.dumps(name) + b":", *pieces_of(schema, column, options)]
        opening = b","
    return [*pieces, b"}" if fields else b"{}"]
