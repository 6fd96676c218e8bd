"""Whole columns of parsed JSON as values of a schema: the results of `json_decoding`, field by field.

One look at the types of a field in all records shows what a look at each value would. A column that is right as it is
is returned itself; structs are changed in place.
"""

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import Any

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.json_decoding import decode
from fencepost.builtin.converter.logical import LOGICAL_TYPES
from fencepost.builtin.converter.plain_column import are_plain
from fencepost.record.java_time import moment
from fencepost.record.schema import DECIMAL_NAME, TIMESTAMP, SchemaType

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
    """Return the decoder of a column without nulls."""
    if schema.name in LOGICAL_TYPES:
        return _logical(schema)
    if schema.type is SchemaType.STRUCT:
        return _struct(schema, is_null_replaced)
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        return _array(schema.value_schema, is_null_replaced)

    def one_by_one(column: Column, kinds: set[type]) -> Column:
        return [decode(schema, value, is_null_replaced=is_null_replaced) for value in column]

    if schema.type is SchemaType.FLOAT64:
        return lambda column, kinds: _float64(column, kinds) or one_by_one(column, kinds)
    if schema.type is SchemaType.FLOAT32:
        return lambda column, kinds: _float32(column, kinds) or one_by_one(column, kinds)
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


def _float64(column: Column, kinds: set[type]) -> Column | None:
    if kinds == {float}:
        return column
    if kinds == {int, float} or kinds == {int}:
        whole = [value for value in column if type(value) is int]
        if min(whole) >= -_EXACT and max(whole) <= _EXACT:
            return list(map(float, column))
    return None


def _float32(column: Column, kinds: set[type]) -> Column | None:
    if kinds == {float} and min(column) >= -_MOST_FLOAT32 and max(column) <= _MOST_FLOAT32:
        return array("f", column).tolist()
    return None
