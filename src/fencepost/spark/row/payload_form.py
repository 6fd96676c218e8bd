"""Rewrites payloads so that Spark reads from them what their schema says. Pure.

`from_json` sees the JSON text alone: it takes a Timestamp for a number of seconds. So values of logical types are
written as texts that `from_json` reads exactly. A value that does not fit its column is refused, by name.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from pyspark.sql import types as T  # noqa: N812

from fencepost.record.schema import DATE, DECIMAL_NAME, TIME, TIMESTAMP, SchemaType
from fencepost.spark.row.payload_text import (
    MisfitError,
    date_text,
    decimal_of,
    decimal_text,
    number_text,
    scale_of,
    shortened,
    shown,
    time_text,
    timestamp_text,
    whole_number,
)

Form = Callable[[Any], Any]
"""Returns the value to write for a parsed value. Raises MisfitError."""

_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_WHOLE: Mapping[type[Any], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_EXACT_BITS: Mapping[type[Any], int] = {T.FloatType: 24, T.DoubleType: 53}
_TEXT = (T.StringType, T.CharType, T.VarcharType)
_ANYTHING = (*_TEXT, T.VariantType)
_PARSED_TEXT = (*_ANYTHING, T.DateType, T.TimeType, T.TimestampType, T.TimestampNTZType)
_MOST_DIGITS = 38


class Forms:
    """Finds forms. `is_null_replaced`: a null becomes the default of its schema, if it has one."""

    def __init__(self, *, is_null_replaced: bool = True) -> None:
        self._is_null_replaced = is_null_replaced

    def of(self, schema: Any, kind: Any, path: str = "") -> Form | None:
        """Return the form of values of an envelope's schema in a column of Spark's type `kind`; None: they stay as they
        are.

        Raises MisfitError if no value of the schema fits the column.
        """
        if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
            raise MisfitError(path, "its schema has no type")
        form = self._form(schema, kind, path)
        default = schema.get("default") if self._is_null_replaced else None
        if default is not None:
            return lambda value: _applied(form, default if value is None else value)
        return None if form is None else lambda value: None if value is None else form(value)

    def _form(self, schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
        name, type_ = schema.get("name"), schema["type"]
        logical = _LOGICAL.get((name, type_)) if isinstance(name, str) else None
        if logical is not None:
            return logical(schema, kind, path)
        if type_ in _INTEGERS:
            return _integer(_INTEGERS[type_], schema, kind, path)
        if type_ in _PLAIN:
            return _PLAIN[type_](schema, kind, path)
        if isinstance(kind, _ANYTHING):
            return None
        if type_ == "array" and isinstance(kind, T.ArrayType):
            return _each(self.of(schema.get("items"), kind.elementType, f"{path}[]"), path)
        if type_ == "map" and isinstance(kind, T.MapType | T.StructType):
            return self._map(schema, kind, path)
        if type_ == "struct" and isinstance(kind, T.MapType | T.StructType):
            return self._struct(schema, kind, path)
        raise _unfit(schema, kind, path)

    def _struct(self, schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
            raise MisfitError(path, "its schema has no fields")
        schemas = {str(field.get("field")): field for field in fields}
        return _members(
            {
                name: self.of(field, column, f"{path}.{name}" if path else name)
                for name, field in schemas.items()
                if (column := _column(kind, name)) is not None
            },
            path,
        )

    def _map(self, schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
        keys, values = schema.get("keys"), schema.get("values")
        if not isinstance(keys, dict) or keys.get("type") != "string":
            raise MisfitError(path, f"its map keys are not text, which does not fit {_said(kind)}: declare STRING")
        if isinstance(kind, T.MapType):
            return _each_value(self.of(values, kind.valueType, f"{path}[]"), path)
        forms = {f.name: self.of(values, f.dataType, f"{path}.{f.name}" if path else f.name) for f in kind.fields}
        return _members(forms, path)


def _integer(bits: int, schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
    if isinstance(kind, T.DecimalType):
        return _exact_decimal(kind, path)
    width, exact = _WHOLE.get(type(kind)), _EXACT_BITS.get(type(kind))
    if isinstance(kind, _ANYTHING) or (width == bits and width > 8) or (width or 0) > bits or (exact or 0) >= bits:
        return None
    if width is not None:  # also for the same 8 bits: Spark reads 200 as -56
        limit = 1 << (width - 1)
        return _checked(lambda number: -limit <= number < limit, kind, path)
    if exact is not None:
        return _checked(lambda number: abs(number) <= 1 << exact, kind, path)
    raise _unfit(schema, kind, path)


def _float(schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
    if isinstance(kind, T.DecimalType):
        return _exact_decimal(kind, path)
    if isinstance(kind, (*_ANYTHING, T.DoubleType)) or (isinstance(kind, T.FloatType) and schema["type"] == "float"):
        return None
    raise _unfit(schema, kind, path)


def _string(schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
    if isinstance(kind, T.DecimalType):
        return _exact_decimal(kind, path)
    if isinstance(kind, _PARSED_TEXT):
        return None
    raise _unfit(schema, kind, path)


def _boolean(schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
    if isinstance(kind, (*_ANYTHING, T.BooleanType)):
        return None
    raise _unfit(schema, kind, path)


def _bytes(schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
    if isinstance(kind, (*_ANYTHING, T.BinaryType)):
        return None
    raise _unfit(schema, kind, path)


def _date(schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
    if isinstance(kind, (*_TEXT, T.DateType)):
        return lambda value: date_text(whole_number(value, path))
    return _number(schema, kind, path, 32, "DATE, INT or STRING")


def _time(schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
    if isinstance(kind, _TEXT):
        return lambda value: time_text(whole_number(value, path), path, 3)
    if isinstance(kind, T.TimeType):
        return lambda value: time_text(whole_number(value, path), path, kind.precision)
    return _number(schema, kind, path, 32, "TIME, INT or STRING")


def _timestamp(schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
    if isinstance(kind, (*_TEXT, T.TimestampType)):
        return lambda value: timestamp_text(whole_number(value, path), path) + "Z"
    if isinstance(kind, T.TimestampNTZType):
        return lambda value: timestamp_text(whole_number(value, path), path)
    return _number(schema, kind, path, 64, "TIMESTAMP, TIMESTAMP_NTZ, BIGINT or STRING")


def _number(schema: Mapping[str, Any], kind: Any, path: str, bits: int, fitting: str) -> Form | None:
    """Return the form for a column that holds the number of a date or time."""
    if _WHOLE.get(type(kind), 0) >= bits:
        return None
    raise _unfit(schema, kind, path, fitting)


def _decimal(schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
    scale = scale_of(schema.get("parameters"), path)
    if isinstance(kind, T.DecimalType):
        return lambda value: _fitting(decimal_of(value, scale, path), kind, path)
    if isinstance(kind, _TEXT):
        return lambda value: decimal_text(decimal_of(value, scale, path))
    raise _unfit(schema, kind, path, f"DECIMAL({_MOST_DIGITS},{scale}) or STRING")


_LOGICAL: Mapping[tuple[str | None, str], Callable[[Mapping[str, Any], Any, str], Form | None]] = {
    (DATE.name, DATE.type.value): _date,
    (TIME.name, TIME.type.value): _time,
    (TIMESTAMP.name, TIMESTAMP.type.value): _timestamp,
    (DECIMAL_NAME, SchemaType.BYTES.value): _decimal,
}
_PLAIN: Mapping[str, Callable[[Mapping[str, Any], Any, str], Form | None]] = {
    "float": _float,
    "double": _float,
    "string": _string,
    "boolean": _boolean,
    "bytes": _bytes,
}


def _exact_decimal(kind: T.DecimalType, path: str) -> Form:
    return lambda value: _fitting(number_text(value, path), kind, path)


def _fitting(number: Decimal, kind: T.DecimalType, path: str) -> str:
    """Return the digits of a number that the column holds exactly; Spark would round others."""
    whole, _, fraction = decimal_text(number).lstrip("-").partition(".")
    if len(whole.lstrip("0")) > kind.precision - kind.scale or len(fraction.rstrip("0")) > kind.scale:
        raise MisfitError(path, f"{shown(number)} does not fit {_said(kind)}")
    return decimal_text(number)


def _checked(fits: Callable[[int], bool], kind: Any, path: str) -> Form:
    def form(value: Any) -> Any:
        if not fits(number := whole_number(value, path)):
            raise MisfitError(path, f"{shown(number)} does not fit {_said(kind)}")
        return value

    return form


def _applied(form: Form | None, value: Any) -> Any:
    return value if form is None else form(value)


def _each(form: Form | None, path: str) -> Form | None:
    def each(value: Any) -> Any:
        if not isinstance(value, list):
            raise MisfitError(path, "its value is not an array")
        return [own(item) for item in value]

    if form is None:
        return None
    own = form
    return each


def _each_value(form: Form | None, path: str) -> Form | None:
    def each(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MisfitError(path, "its value is not an object")
        return {name: own(item) for name, item in value.items()}

    if form is None:
        return None
    own = form
    return each


def _members(forms: Mapping[str, Form | None], path: str) -> Form | None:
    """Return the form of an object; members without a form stay as they are."""
    needed = [(name, form) for name, form in forms.items() if form is not None]

    def each(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MisfitError(path, "its value is not an object")
        made = dict(value)
        for name, form in needed:
            made[name] = form(value.get(name))
        return made

    return each if needed else None


def _column(kind: Any, name: str) -> Any:
    """Return the type of a member of this name in a column of structs or of a map; None if it has none."""
    if isinstance(kind, T.MapType):
        return kind.valueType
    return kind[name].dataType if name in kind.names else None


def _unfit(schema: Mapping[str, Any], kind: Any, path: str, fitting: str = "") -> MisfitError:
    name, type_ = schema.get("name"), str(schema["type"])
    what = shortened(type_) + (f" {shortened(name)}" if isinstance(name, str) and name else "")
    fits = fitting or _FITTING.get(type_, "another type")
    return MisfitError(path, f"its schema is {what}, which does not fit {_said(kind)}: declare {fits}")


_FITTING = {
    **dict.fromkeys(_INTEGERS, "BIGINT or STRING, and convert it in transforms.sql"),
    "float": "FLOAT, DOUBLE or STRING",
    "double": "DOUBLE or STRING",
    "boolean": "BOOLEAN or STRING",
    "string": "STRING, and convert it in transforms.sql",
    "bytes": "BINARY or STRING",
    "array": "ARRAY<…> or STRING",
    "map": "MAP<STRING, …> or STRING",
    "struct": "STRUCT<…> or STRING",
}


def _said(kind: Any) -> str:
    return str(kind.simpleString()).upper()
