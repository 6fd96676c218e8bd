"""JSON as values of a schema: one by one, or whole columns, field by field.

It is parsed with exact numbers: those that a double would round become integers or Decimals. One look at the types of a
field in all records shows what a look at each value would. A column that is right as it is is returned itself; structs
are changed in place.
"""

import base64
import json
import math
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import Any

import orjson

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.connect_value import LOGICAL_TYPES, has_many_zeros, shown, unscaled, with_scale
from fencepost.record import ArrowColumn, MomentColumn, StructColumn
from fencepost.record.java_value import float32, moment
from fencepost.record.schema import TIMESTAMP
from fencepost.record.type_table import DECIMAL_NAME, INTEGER_BITS, SchemaType

# A double holds any 15 digits. For most records two searches of the bytes show that no number has more.
_SHAPES = bytes(
    ord("0" if (c := chr(byte)) in "0123456789." else c.lower() if c in "eE-+" else " ") for byte in range(256)
)
_LONG, _TINY = b"0" * 16, b"0e-000"
_DIGIT = ord("0")
_REST = re.compile(rb"0*(?:e[-+]?0+)?")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_MOST_DIGITS, _MOST = 100, (1 << 63) - 1  # of numbers that orjson does not parse as doubles, with either sign


def parsed(data: bytes) -> Any:
    """Parse JSON. Raises ValueError, also for a number that is far too large for a double."""
    found = orjson.loads(data)
    shapes = data.translate(_SHAPES)
    if any(map(_is_rounded, _suspects(data, shapes))):
        return json.loads(data, parse_float=exact_float)
    return found


def parsed_with_decimals(data: bytes) -> Any:
    """Parse JSON in which a decimal may be a number: all numbers with a fraction become Decimals. Raises ValueError."""
    found = json.loads(data.decode(), parse_float=exact_decimal, parse_constant=_refused)
    if _HALF.search(data):
        json.dumps(found, ensure_ascii=False, default=str).encode()  # half of a surrogate pair is a UnicodeEncodeError
    return found


def _suspects(data: bytes, shapes: bytes) -> Iterator[bytes]:
    """Yield the parts of JSON that may be numbers which a double would round; some are parts of texts."""
    for shape in (_LONG, _TINY):
        start = shapes.find(shape)
        while start >= 0:
            rest = _REST.match(shapes, start)
            end = start if rest is None else rest.end()
            while start and shapes[start - 1] == _DIGIT:  # of the number whose exponent was found
                start -= 1
            yield data[start:end]
            start = shapes.find(shape, end)


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _is_rounded(number: bytes) -> bool:
    if number.isdigit():
        return len(number) > _MOST_DIGITS or int(number) > _MOST
    text = number.decode()
    try:
        if repr(float(text)) == text:
            return False
    except ValueError:  # it is part of a text
        return False
    try:
        return isinstance(exact_float(text), Decimal)
    except ValueError:  # it cannot be exact
        return True


def exact_float(text: str) -> float | Decimal:
    """Return a double if these are its shortest digits, else an exact number."""
    near = float(text)
    shortest = repr(near)
    if shortest == text:
        return near
    exact = exact_decimal(text)
    return near if Decimal(shortest) == exact else exact


def exact_decimal(text: str) -> Decimal:
    """Return a number with all its digits. Raises ValueError for one with thousands of zeros."""
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text[:80]} is not a number that can be kept") from None
    if not has_many_zeros(exact):
        return exact
    if exact:
        raise ValueError(f"{text[:80]} is too large, or too close to 0, to be kept exactly")
    return Decimal(0)


def _is_tiny_possible(texts: Sequence[bytes]) -> bool:
    """Say whether a number may have so many zeros that `exact_decimal` refuses it, and orjson reads it as 0."""
    data = b" ".join(texts)
    return _LONG in data or _TINY in data.translate(_SHAPES)


def are_plain(kind: SchemaType, column: Sequence[Any], kinds: set[type]) -> bool:
    """Say whether all values fit, and are the same in JSON; False if that is unknown. `kinds` are their types."""
    expected, test = _PLAIN.get(kind, (None, None))
    return kinds == {expected} and (test is None or test(column))


def _within(bits: int) -> Callable[[Sequence[int]], bool]:
    limit = 1 << (bits - 1)
    return lambda column: -limit <= min(column) and max(column) < limit


_PLAIN: dict[SchemaType, tuple[type, Callable[[Sequence[Any]], bool] | None]] = {
    **{kind: (int, _within(bits)) for kind, bits in INTEGER_BITS.items()},
    SchemaType.FLOAT64: (float, lambda column: all(map(math.isfinite, column))),
    SchemaType.BOOLEAN: (bool, None),
    SchemaType.STRING: (str, None),
}


JSON_KIND = {dict: "OBJECT", list: "ARRAY", str: "STRING", bool: "BOOLEAN", int: "NUMBER", float: "NUMBER"}


def decode(schema: Schema | None, value: Any, *, is_null_replaced: bool = True) -> Any:
    """Return the value of a payload. Raises RecordError if it does not fit the schema."""
    if schema is None:
        return value
    if value is None:
        if schema.default is not None and is_null_replaced:
            return schema.default
        if schema.is_optional:
            return None
        raise RecordError(f"Invalid null value for required {schema.type.name} field")
    if schema.name == DECIMAL_NAME and isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return with_scale(schema, unscaled(schema, Decimal(value)))
    plain = _plain(schema, value, is_null_replaced)
    logical = LOGICAL_TYPES.get(schema.name)
    return plain if logical is None else logical.from_plain(schema, plain)


def _plain(schema: Schema, value: Any, is_null_replaced: bool) -> Any:
    kind = schema.type
    if kind is SchemaType.STRUCT:
        _require(isinstance(value, dict), "Structs should be encoded as JSON objects", value)
        return {
            field.name: decode(field.schema, value.get(field.name), is_null_replaced=is_null_replaced)
            for field in schema.fields
        }
    if kind is SchemaType.ARRAY:
        _require(isinstance(value, list), "Arrays should be encoded as JSON arrays", value)
        return [decode(schema.value_schema, item, is_null_replaced=is_null_replaced) for item in value]
    if kind is SchemaType.MAP:
        return {
            decode(schema.key_schema, k, is_null_replaced=is_null_replaced): decode(
                schema.value_schema, v, is_null_replaced=is_null_replaced
            )
            for k, v in _pairs(schema, value)
        }
    return _primitive(kind, value)


def _pairs(schema: Schema, value: Any) -> list[tuple[Any, Any]]:
    if schema.key_schema is not None and schema.key_schema.type is SchemaType.STRING:
        _require(isinstance(value, dict), "Maps with string fields should be encoded as JSON objects", value)
        return list(value.items())
    _require(isinstance(value, list), "Maps with non-string fields should be encoded as JSON array of tuples", value)
    for entry in value:
        _require(isinstance(entry, list) and len(entry) == 2, "A map's entries should be arrays of two", entry)
    return [(k, v) for k, v in value]


def _primitive(kind: SchemaType, value: Any) -> Any:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if kind in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[kind] - 1)
        is_in_range = is_number and -limit <= value < limit  # first: an integer of 1e999999999 takes days
        _require(is_in_range and value == int(value), f"{kind.name} should be a whole number in range", value)
        return int(value)
    if kind in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        _require(is_number or value in ("NaN", "Infinity", "-Infinity"), f"{kind.name} should be a number", value)
        return _float64(value, kind) if kind is SchemaType.FLOAT64 else _float32(value)
    if kind is SchemaType.BOOLEAN:
        _require(isinstance(value, bool), "BOOLEAN should be true or false", value)
        return value
    _require(isinstance(value, str), f"{kind.name} should be text", value)
    if kind is SchemaType.STRING:
        return value
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise RecordError("Invalid bytes field") from error


def _float64(value: Any, kind: SchemaType) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if isinstance(value, int | Decimal) and math.isinf(number):
        raise RecordError(f"{kind.name} should be a number in range, but found {shown(value)}")
    return number


def _float32(value: Any) -> float:
    try:
        return float32(_float64(value, SchemaType.FLOAT32))
    except OverflowError:
        raise RecordError(f"FLOAT32 should be a number in range, but found {value}") from None


def _require(is_right: bool, rule: str, value: Any) -> None:
    if not is_right:
        raise RecordError(f"{rule}, but found {JSON_KIND.get(type(value), 'NUMBER')}")


Column = Sequence[Any]
DecodeColumn = Callable[[Column], Column]
_DecodeDense = Callable[[Column, set[type]], Column]

_NONE = type(None)
_MOST_FLOAT32 = 3.4e38  # the largest is a little larger
_EXACT = 1 << 53


def column_decoder(schema: Schema, *, is_null_replaced: bool = True) -> DecodeColumn:
    """Return a function from a column of parsed JSON to the schema's values.

    It raises RecordError for a misfit, and ValueError for a timestamp that Python has no datetime for.
    """
    dense = _dense(schema, is_null_replaced)
    absent = schema.default if is_null_replaced else None

    def decode_column(column: Column) -> Column:
        kinds = set(map(type, column))
        if _NONE not in kinds:
            return dense(column, kinds)
        if absent is None and not schema.is_optional:
            raise RecordError(f"Invalid null value for required {schema.type.name} field")
        kinds.discard(_NONE)
        present = [value for value in column if value is not None]
        decoded = dense(present, kinds) if present else present
        if decoded is present and absent is None:
            return column
        values = iter(decoded)
        return [absent if value is None else next(values) for value in column]

    return decode_column


def _dense(schema: Schema, is_null_replaced: bool) -> _DecodeDense:
    if schema.name in LOGICAL_TYPES:
        return _logical(schema)
    if schema.type is SchemaType.STRUCT:
        return _struct(schema, is_null_replaced)
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        return _array(schema.value_schema, is_null_replaced)

    def one_by_one(column: Column, kinds: set[type]) -> Column:
        return [decode(schema, value, is_null_replaced=is_null_replaced) for value in column]

    if schema.type is SchemaType.FLOAT64:
        return lambda column, kinds: _float64_column(column, kinds) or one_by_one(column, kinds)
    if schema.type is SchemaType.FLOAT32:
        return lambda column, kinds: _float32_column(column, kinds) or one_by_one(column, kinds)
    return lambda column, kinds: column if are_plain(schema.type, column, kinds) else one_by_one(column, kinds)


def _struct(schema: Schema, is_null_replaced: bool) -> _DecodeDense:
    names = tuple(field.name for field in schema.fields)
    decoders = [column_decoder(field.schema, is_null_replaced=is_null_replaced) for field in schema.fields]

    def decode_structs(column: Column, kinds: set[type]) -> Column:
        if kinds != {dict}:
            raise RecordError("Structs should be encoded as JSON objects")
        if set(map(tuple, column)) != {names}:  # missing or unknown members, or another order
            column = [{name: value.get(name) for name in names} for value in column]
        for name, decode_column in zip(names, decoders, strict=True):
            member = list(map(itemgetter(name), column))
            decoded = decode_column(member)
            if decoded is not member:
                for struct, value in zip(column, decoded, strict=True):
                    struct[name] = value
        return column

    return decode_structs


def _array(item: Schema, is_null_replaced: bool) -> _DecodeDense:
    decode_items = column_decoder(item, is_null_replaced=is_null_replaced)

    def decode_arrays(column: Column, kinds: set[type]) -> Column:
        if kinds != {list}:
            raise RecordError("Arrays should be encoded as JSON arrays")
        items = list(chain.from_iterable(column))
        decoded = decode_items(items)
        if decoded is items:
            return column
        return [list(decoded[begin:end]) for begin, end in pairwise(accumulate(map(len, column), initial=0))]

    return decode_arrays


def _logical(schema: Schema) -> _DecodeDense:
    def decode_all(column: Column, kinds: set[type]) -> Column:
        if schema.name == DECIMAL_NAME and kinds != {str}:  # a number, whose digits must be kept
            raise RecordError("A decimal that is a number is decoded by itself")
        if schema.name == TIMESTAMP.name and schema.type is TIMESTAMP.type and kinds == {int}:
            return list(map(moment, column))
        return [decode(schema, value) for value in column]

    return decode_all


def _float64_column(column: Column, kinds: set[type]) -> Column | None:
    if kinds == {float}:
        return column
    if kinds == {int, float} or kinds == {int}:
        whole = [value for value in column if type(value) is int]
        if min(whole) >= -_EXACT and max(whole) <= _EXACT:
            return list(map(float, column))
    return None


def _float32_column(column: Column, kinds: set[type]) -> Column | None:
    if kinds == {float} and min(column) >= -_MOST_FLOAT32 and max(column) <= _MOST_FLOAT32:
        return array("f", column).tolist()
    return None


_ARROW = {
    **{kind: f"int{bits}" for kind, bits in INTEGER_BITS.items()},
    SchemaType.FLOAT64: "float64",
    SchemaType.BOOLEAN: "bool",
    SchemaType.STRING: "string",
}
_NUMBERS: dict[SchemaType, set[type]] = {SchemaType.FLOAT64: {float, int}, SchemaType.FLOAT32: {float}}
_EXACT_KINDS = {str, bool}


def is_flat(schema: Schema) -> bool:
    """Say whether a schema is that of a struct of single values, which `struct_columns` reads."""
    nested = (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)
    is_plain = schema.type is SchemaType.STRUCT and schema.name not in LOGICAL_TYPES
    return is_plain and not any(field.schema.type in nested for field in schema.fields)


def struct_columns(
    schema: Schema, rows: Sequence[Any], texts: Sequence[bytes], *, is_null_replaced: bool
) -> StructColumn | None:
    """Return flat structs as columns, of which plain ones are Arrow arrays; None if the values must be looked at.

    orjson alone has parsed `texts` to `rows`. It rounds numbers, which matters for none that is to be a double, so
    numbers of other kinds than their field's are left to `column_decoder` and an exact parser.
    """
    if set(map(type, rows)) != {dict}:
        return None
    columns: dict[str, Column] = {}
    may_be_tiny = cache(lambda: _is_tiny_possible(texts))
    for field in schema.fields:
        try:
            member = list(map(itemgetter(field.name), rows))
        except KeyError:
            member = [row.get(field.name) for row in rows]
        column = _arrow(field.schema, member, may_be_tiny, is_null_replaced)
        if column is None:
            return None
        columns[field.name] = column
    return StructColumn(columns, len(rows))


def _arrow(schema: Schema, column: Column, may_be_tiny: Callable[[], bool], is_null_replaced: bool) -> Column | None:
    import pyarrow as pa

    kinds = set(map(type, column))
    if _NONE in kinds and (not schema.is_optional or (schema.default is not None and is_null_replaced)):
        return None
    kinds.discard(_NONE)
    if float in kinds and 0.0 in column and may_be_tiny():
        return None
    expected: set[type] = {_PLAIN[schema.type][0]} if schema.type in _PLAIN else set()
    if not kinds <= _NUMBERS.get(schema.type, expected):
        return column_decoder(schema, is_null_replaced=is_null_replaced)(column) if kinds <= _EXACT_KINDS else None
    name, is_moment = _ARROW.get(schema.type), schema.name == TIMESTAMP.name and schema.type is TIMESTAMP.type
    if name is None or (schema.name in LOGICAL_TYPES and not is_moment):
        return column_decoder(schema, is_null_replaced=is_null_replaced)(column)
    try:
        array_ = pa.array(column, name)
        return MomentColumn.of_ms(array_) if is_moment else ArrowColumn(array_)
    except (pa.ArrowInvalid, OverflowError, ValueError):
        return None
