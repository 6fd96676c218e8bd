"""Cast: gives fields, or a whole key or value, another type, with the rules of Java's conversions."""

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from fencepost.api import HIGH, ConnectRecord, Record, RecordError, Schema, setting
from fencepost.builtin.transform.java_date import iso_text
from fencepost.builtin.transform.side import (
    Columns,
    FieldTransform,
    NullReplacing,
    both_sides,
    convert_column,
    convert_field,
    is_null,
    mapped,
    remembering,
)
from fencepost.config.check import Check
from fencepost.record import Field, RecordColumns, Repeated, SchemaType, Utf8Column
from fencepost.record.java_value import DAY_MS, cut, fits, float32, java_text, milliseconds, shortest_float32
from fencepost.record.schema import DATE, TIME, TIMESTAMP
from fencepost.record.type_table import DECIMAL_NAME, INTEGER_BITS

_SIGNED = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)", re.ASCII)
_TYPES = {
    **{kind.name: kind for kind in (*INTEGER_BITS, SchemaType.FLOAT32, SchemaType.FLOAT64)},
    "BOOLEAN": SchemaType.BOOLEAN,
    "STRING": SchemaType.STRING,
}
_KNOWN = ", ".join(_TYPES)
_NOT_CAST = frozenset({SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT})


def _parts(pair: str) -> list[str]:
    return pair.rstrip(":").split(":")


def _fault(pairs: list[str]) -> str | None:
    if not pairs:
        return "Must specify at least one field to cast."
    for pair in pairs:
        parts = _parts(pair)
        if len(parts) > 2:
            return f"Invalid rename mapping: {pair}"
        if parts[-1].strip().upper() not in _TYPES:
            return f"Invalid type found in casting spec: {parts[-1].strip()}; use one of {_KNOWN.lower()}"
        if len(parts) == 1 and len(pairs) > 1:
            return (
                "Cast transformations that specify a type to cast the entire value to may only specify a single cast "
                "in their spec"
            )
    return None


class Cast(NullReplacing, FieldTransform):
    """Casts fields of a struct or map, or the whole key or value."""

    purpose = "cast types"

    spec: list[str] = setting(
        "spec",
        importance=HIGH,
        check=Check(_fault, "list of colon-delimited pairs, e.g. foo:bar,abc:xyz"),
        doc="List of fields and the type to cast them to, of the form field1:type,field2:type. A single type casts "
        "the entire key or value. Types are int8, int16, int32, int64, float32, float64, boolean and string; binary "
        "fields can only be cast to string.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        pairs = [_parts(pair) for pair in self.spec]
        self._whole = _TYPES[pairs[0][0].strip().upper()] if len(pairs[0]) == 1 else None
        self._whole_schema = remembering(self._cast_schema)
        self._casts = {} if self._whole else {name.strip(): _TYPES[kind.strip().upper()] for name, kind in pairs}

    def apply(self, record: Record) -> Record | None:
        value = self.side.value_of(record)
        if self._whole is None or value is None:
            return super().apply(record)
        schema = self.side.schema_of(record)
        after = None if schema is None else self._whole_schema(schema)
        return self.side.with_value(record, after, _converted(self._whole, schema, value))

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        schema, values = self.side.column_of(batch)
        if self._whole is None or is_null(values):
            return super().apply_batch(batch)
        after = None if schema is None else self._whole_schema(schema)
        changed = _converted_column(self._whole, schema, values)
        has_nulls = None in changed  # these keep the schema that they have
        return None if has_nulls else self.side.with_column(batch, after, changed)

    def _cast_schema(self, schema: Schema) -> Schema:
        """Return the schema of a whole value that is cast: Kafka keeps its name, version, doc and parameters."""
        assert self._whole is not None
        kept = {name: getattr(schema, name) for name in ("name", "version", "doc", "parameters")}
        return replace(_of_type(schema, self._whole), **kept)

    def changed_fields(self, record: ConnectRecord, schema: Schema | None, fields: dict[str, Any]) -> dict[str, Any]:
        for name, kind in self._casts.items():
            convert_field(fields, schema, name, partial(_converted, kind))
        return fields

    def changed_columns(self, batch: RecordColumns, schema: Schema | None, fields: Columns) -> Columns | None:
        for name, kind in self._casts.items():
            convert_column(fields, schema, name, len(batch), partial(_converted_column, kind))
        return fields

    def changed_members(self, schema: Schema) -> tuple[Field, ...]:
        return tuple(
            Field(f.name, _of_type(f.schema, self._casts[f.name])) if f.name in self._casts else f
            for f in schema.fields
        )

    def changed_schema(self, schema: Schema) -> Schema:
        if schema.default is not None:
            raise RecordError("Cast transformation does not support casting from STRUCT, as the schema has a default")
        return replace(schema, fields=self.changed_members(schema))


CastKey, CastValue = both_sides(Cast, "Casts record {side}s or fields of them.")


def _of_type(schema: Schema, kind: SchemaType) -> Schema:
    return Schema(kind, schema.is_optional, _converted(kind, schema, schema.default))


def _converted(kind: SchemaType, schema: Schema | None, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list | tuple | Mapping) or (schema is not None and schema.type in _NOT_CAST):
        found = schema.type.name if schema is not None else ("MAP" if isinstance(value, Mapping) else "ARRAY")
        raise RecordError(f"Cast transformation does not support casting from {found}; supported are {_KNOWN}, BYTES")
    if kind is SchemaType.STRING:
        return _text(schema, value)
    plain = _plain(schema, value)
    if not isinstance(plain, bool | int | float | str | Decimal):
        raise RecordError(f"Unexpected type in Cast transformation: {type(value).__name__}")
    try:
        found = _CONVERTERS[kind](plain)
        # Without a schema nothing says later that it has 32 bits: 0.1 stays 0.1, as Java prints it.
        return shortest_float32(found) if schema is None and kind is SchemaType.FLOAT32 else found
    except (ValueError, OverflowError):
        raise RecordError(f"Value ({plain}) was out of range for requested data type") from None


def _converted_column(kind: SchemaType, schema: Schema | None, column: Sequence[Any]) -> Sequence[Any]:
    """Convert a column as `_converted` converts its values; the common conversions in one step for all of them."""
    if isinstance(column, Repeated) or (schema is not None and (schema.name or schema.type in _NOT_CAST)):
        return mapped(partial(_converted, kind, schema), column)
    if isinstance(column, Utf8Column):
        if kind is SchemaType.STRING:
            return column
        column = column.texts()
    quick = _QUICK.get((frozenset(map(type, column)), kind))
    found = None if quick is None else quick(column)
    return mapped(partial(_converted, kind, schema), column) if found is None else found


def _plain(schema: Schema | None, value: Any) -> Any:
    """Return a value of a logical type in its underlying type, as far as the schema names one."""
    name = None if schema is None else schema.name
    if name == DATE.name:
        return milliseconds(value) // DAY_MS
    return milliseconds(value) if name in (TIME.name, TIMESTAMP.name) else value


def _text(schema: Schema | None, value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if hasattr(value, "isoformat"):
        return iso_text(value)
    if schema is not None and schema.name == DECIMAL_NAME:
        return str(value)
    return java_text(schema, value)


def _integer(bits: int) -> Callable[[Any], int]:
    """Return Java's conversion to an integer: text is parsed, a number cut to `bits`, a float to its range before."""

    def convert(value: Any) -> int:
        if isinstance(value, str):
            found = int(value) if _SIGNED.fullmatch(value) else None
            if found is None or not fits(found, bits):
                raise ValueError(value)
            return found
        if isinstance(value, float):
            width = max(bits, 32)  # Java converts floats to int or long first
            most = (1 << (width - 1)) - 1
            value = 0 if math.isnan(value) else max(-most - 1, min(most, value))
        return cut(int(value), bits)

    return convert


def _double(value: Any) -> float:
    if isinstance(value, str):
        found = _FLOAT.fullmatch(value.strip())
        if found is None:
            raise ValueError(value)
        return float(value.strip().rstrip("fFdD") if found[2] else value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _single(value: Any) -> float:
    number = _double(value)
    try:
        return float32(number)
    except OverflowError:
        return math.copysign(math.inf, number)


def _boolean(value: Any) -> bool:
    return value.lower() == "true" if isinstance(value, str) else _integer(64)(value) != 0


_CONVERTERS: dict[SchemaType, Callable[[Any], Any]] = {
    **{kind: _integer(bits) for kind, bits in INTEGER_BITS.items()},
    SchemaType.FLOAT32: _single,
    SchemaType.FLOAT64: _double,
    SchemaType.BOOLEAN: _boolean,
}


def _whole_numbers(bits: int) -> Callable[[Sequence[Any]], Sequence[int] | None]:
    """Return the conversion of columns of digits, or of integers, if all numbers fit; it returns None if one does not.

    A sign, or a number to cut to its bits, is rare enough to be converted by itself.
    """

    def convert(column: Sequence[Any]) -> Sequence[int] | None:
        if isinstance(column[0], str) and not all(map(str.isdecimal, column)):
            return None
        numbers = list(map(int, column))
        return numbers if fits(min(numbers), bits) and fits(max(numbers), bits) else None

    return convert


_STR, _INT, _FLOAT_KIND = frozenset({str}), frozenset({int}), frozenset({float})
_QUICK: dict[tuple[frozenset[type], SchemaType], Callable[[Sequence[Any]], Sequence[Any] | None]] = {
    **{(_STR, kind): _whole_numbers(bits) for kind, bits in INTEGER_BITS.items()},
    **{(_INT, kind): _whole_numbers(bits) for kind, bits in INTEGER_BITS.items()},
    (_INT, SchemaType.STRING): lambda column: list(map(str, column)),
    (_STR, SchemaType.STRING): lambda column: column,
    (_FLOAT_KIND, SchemaType.FLOAT64): lambda column: column,
}
