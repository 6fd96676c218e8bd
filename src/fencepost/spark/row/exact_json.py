"""Finds the values of plain JSON that columns hold exactly; `from_json` would change others silently. Pure.

Values that misfit in another way are left to Spark, which reports them itself. Values that cannot be checked are
refused, because Spark's parser might accept them.
"""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any

import orjson
from pyspark.sql import types as T  # noqa: N812

from fencepost.builtin.converter.json_decoding import exact_float, parsed
from fencepost.record import type_table
from fencepost.record.java_value import float32
from fencepost.spark.row.kafka_columns import has_type
from fencepost.spark.row.payloads import UNWRITABLE, MisfitError, digits_of, exact_number, shown

Check = Callable[[Any], Any]
"""Returns a parsed value, or the value to write instead. Raises MisfitError."""

_ALWAYS = (
    T.ByteType, T.FloatType, T.DecimalType, T.DateType, T.TimestampType, T.TimestampNTZType, T.TimeType, T.BinaryType,
    T.DayTimeIntervalType, T.CalendarIntervalType,
)  # fmt: skip
_LONG_NUMBERS = (T.StringType, T.DoubleType, T.VariantType)
_MICROS, _SECOND_US = 6, 1_000_000
_MOST_LONG = (1 << 63) - 1
_MOST_S = _MOST_LONG // _SECOND_US
_MOST_DIGITS = 1_000  # Spark's parser accepts no longer numbers
_CONTEXT = Context(prec=2 * _MOST_DIGITS)
_LEAST_WITHOUT_EXPONENT = 1e-4
_BLANK = r"[\x00-\x20\x7f]*"  # the characters that Spark strips from a text
_MORE_THAN_DATE = re.compile(rf"{_BLANK}[+-]?\d+-\d+-\d+[T ](?!\s*$|\s*00?:00?(?::00?(?:\.0*)?)?\s*(?:Z|UTC)?\s*$)")
_DIGITS_ALONE = re.compile(rf"{_BLANK}[+-]?\d+{_BLANK}$")
_NO_DAY = re.compile(rf"{_BLANK}(?:T|\d{{1,2}}:|[+-]?\d+{_BLANK}$)")
_DECIMAL_TEXT = re.compile(r"\s*[+-]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|[^,]*)\s*$")
_PADDED_WITHIN = re.compile(r"=\s*[^=\s]")
_UNITS = (
    r"(?:\d{1,8}\s+(?:year|month|week|day)s?|\d{1,9}\s+(?:hour|minute|millisecond|microsecond)s?"
    r"|(?:\d{1,9}\.?\d{0,9}|\.\d{1,9})\s+seconds?)"
)
_INTERVAL = re.compile(rf"{_BLANK}(?:interval\s+)?[+-]?\s*{_UNITS}(?:\s+[+-]?\s*{_UNITS})*{_BLANK}$", re.IGNORECASE)
_MICROS_OF_SECOND = re.compile(r"\.(\d+)")
_FRACTION = re.compile(r":\d+\.(\d+)")

# For most texts, two passes over all bytes show that no number in them is longer than a double can be.
_SHAPES = bytes(
    ord("0" if (c := chr(byte)) in "0123456789." else c.lower() if c in "eE-" else " ") for byte in range(256)
)
_SUSPECT = (b"0" * 16, b"e-000", b"e000", b"e 000")  # `+` is a blank there

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[+-]?\b(?:INF|Infinity)\b', re.DOTALL)
_OF_QUOTED = re.compile(r"\\.|\"", re.DOTALL)
_STRICT = {"\\'": "'", '"': '\\"'}  # in parts of a text; Spark reads the first as the second in any text
_NOT_JSON = "the value is not JSON"


class _Repeated(dict[str, Any]):
    """An object in which a name occurs twice, with its last value."""


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    return found if len(found) == len(members) else _Repeated(found)


_WITH_REPEATED = json.JSONDecoder(parse_float=exact_float, parse_constant=Decimal, object_pairs_hook=_object)
_LENIENT = json.JSONDecoder(parse_float=exact_number, parse_constant=Decimal, object_pairs_hook=_object, strict=False)


def has_long_numbers(texts: bytes) -> bool:
    """Return whether the texts may have a number that a double does not hold."""
    shapes = texts.translate(_SHAPES)
    return any(each in shapes for each in _SUSPECT)


class ExactColumns:
    """Checks the JSON texts of columns."""

    def __init__(self, columns: T.StructType) -> None:
        self._check = _struct(columns, "")
        self._has_maps = has_type(columns, (T.MapType,))
        self.is_for_all = has_type(columns, _ALWAYS)
        self.is_for_long_numbers = has_type(columns, _LONG_NUMBERS)

    @property
    def is_needed(self) -> bool:
        """Return whether there is a column in which Spark changes values silently."""
        return self.is_for_all or self.is_for_long_numbers

    def exact(self, text: bytes) -> bytes:
        """Return a text from which Spark reads exactly the given values. Raises MisfitError."""
        if self._check is None:
            return text
        try:
            found = _parsed(text, has_maps=self._has_maps)
            made = self._check(found)
            return text if made is found else _dumped(made)
        except (orjson.JSONEncodeError, RecursionError):
            raise MisfitError("", UNWRITABLE) from None


def _parsed(text: bytes, *, has_maps: bool) -> Any:
    """Return the value that Spark, whose parser accepts more than JSON, reads in a text. Raises MisfitError."""
    try:
        return _WITH_REPEATED.decode(text.decode()) if has_maps else parsed(text)
    except (ValueError, RecursionError):
        pass
    try:
        return _LENIENT.raw_decode(_QUOTED.sub(_strict, text.decode(errors="replace")).lstrip())[0]
    except MisfitError:
        raise
    except (ValueError, RecursionError):
        raise MisfitError("", _NOT_JSON) from None


def _strict(token: re.Match[str]) -> str:
    found = token[0]
    if found[0] in "'\"":
        return f'"{_OF_QUOTED.sub(lambda piece: _STRICT.get(piece[0], piece[0]), found[1:-1])}"'
    return f"{'-' * found.startswith('-')}Infinity"


def _of(kind: Any, path: str) -> Check | None:
    if isinstance(kind, T.StructType):
        return _struct(kind, path)
    if isinstance(kind, T.ArrayType):
        return _array(_of(kind.elementType, f"{path}[]"))
    if isinstance(kind, T.MapType):
        return _map(_of(kind.valueType, f"{path}[]"), path)
    leaf = next((check for type_, check in _LEAVES.items() if isinstance(kind, type_)), None)
    return None if leaf is None else lambda value: leaf(value, kind, path)


def _struct(kind: T.StructType, path: str) -> Check | None:
    found = ((field.name, _of(field.dataType, f"{path}.{field.name}" if path else field.name)) for field in kind.fields)
    checks = [(name, check) for name, check in found if check is not None]

    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        changed: dict[str, Any] = {}
        for name, own in checks:
            given = value.get(name)
            if given is not None and (made := own(given)) is not given:
                changed[name] = made
        return {**value, **changed} if changed else value

    return check if checks else None


def _array(own: Check | None) -> Check | None:
    def check(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        made = [None if item is None else own(item) for item in value]  # type: ignore[misc]
        return value if all(a is b for a, b in zip(made, value, strict=True)) else made

    return None if own is None else check


def _map(own: Check | None, path: str) -> Check | None:
    def check(value: Any) -> Any:
        if isinstance(value, _Repeated):
            raise MisfitError(path, "a name occurs twice in it")
        if not isinstance(value, dict):
            return value
        made = {name: None if item is None else own(item) for name, item in value.items()}  # type: ignore[misc]
        return value if all(made[name] is value[name] for name in value) else made

    return None if own is None else check


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _decimal(value: Any) -> Decimal | None:
    """Return a number exactly as its digits; None for anything else, and if it is not finite."""
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return number if number.is_finite() else None


def _misfit(value: Any, kind: Any, path: str) -> MisfitError:
    readable = _decimal(value) if isinstance(value, float) else value
    return MisfitError(path, f"{shown(readable)} does not fit {kind.simpleString().upper()}")


def _byte(value: Any, kind: Any, path: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and not -128 <= value <= 127:
        raise _misfit(value, kind, path)  # Spark reads 200 as -56
    return value


def _double(value: Any, kind: Any, path: str) -> Any:
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and not _is_near(value, float):
        raise _misfit(value, kind, path)
    return value


def _float(value: Any, kind: Any, path: str) -> Any:
    if _is_number(value) and not _is_near(value, lambda number: float32(float(number))):
        raise _misfit(value, kind, path)
    return value


def _is_near(value: Any, rounded: Callable[[Any], float]) -> bool:
    """Return whether a double, written with as many digits as the number has, is the number."""
    number = _decimal(value)
    if number is None:
        return True
    if len(number.as_tuple().digits) > _MOST_DIGITS:
        return False
    try:
        near = Decimal(rounded(number))
    except OverflowError:
        return False
    if not near.is_finite() or bool(near) != bool(number):
        return False
    unit = _CONTEXT.normalize(number).as_tuple().exponent
    return not number or abs(_CONTEXT.subtract(number, near)) < Decimal((0, (1,), int(unit)))


def _exact_decimal(value: Any, kind: Any, path: str) -> Any:
    number = _decimal_of_text(value) if isinstance(value, str) else _decimal(value) if _is_number(value) else None
    if isinstance(value, str) and not _DECIMAL_TEXT.match(value):
        raise _misfit(value, kind, path)  # Spark reads 1,5 as 15
    if number:
        _, digits, exponent = number.as_tuple()
        zeros = len(digits) - len(str.rstrip("".join(map(str, digits)), "0"))
        is_too_large = number.adjusted() >= kind.precision - kind.scale  # Spark would write all digits of 1e999999999
        if is_too_large or -(int(exponent) + zeros) > kind.scale:
            raise _misfit(value, kind, path)
    return value


def _decimal_of_text(text: str) -> Decimal | None:
    try:
        return _decimal(exact_number(text.replace(",", "").strip()))
    except MisfitError:
        return None


def _string(value: Any, kind: Any, path: str) -> Any:
    """Return a text for a value with a number that Spark would turn into a double."""
    if isinstance(value, Decimal):
        return digits_of(value)
    return _dumped(value).decode() if _has_decimal(value) else value


def _variant(value: Any, kind: Any, path: str) -> Any:
    """Return the value that Spark stores: a number with an exponent is a double; any other of up to 38 digits is
    exact.
    """
    if isinstance(value, dict):
        members = {name: _variant(item, kind, path) for name, item in value.items()}
        return value if all(members[name] is item for name, item in value.items()) else members
    if isinstance(value, list):
        items = [_variant(item, kind, path) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and not _is_near(value, float):
        _, digits, exponent = Decimal(value).as_tuple()
        if len(digits) + max(int(exponent), 0) > type_table.MOST_DIGITS or -int(exponent) > type_table.MOST_DIGITS:
            raise _misfit(value, kind, path)
        return value if isinstance(value, int) else orjson.Fragment(digits_of(value))
    return value


def _has_decimal(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_decimal, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Decimal)


def _date(value: Any, kind: Any, path: str) -> Any:
    if isinstance(value, str) and (_MORE_THAN_DATE.match(value) or _DIGITS_ALONE.match(value)):
        raise _misfit(value, kind, path)  # Spark ignores what follows the day; it reads digits alone as days, or a year
    return value


def _time(value: Any, kind: Any, path: str) -> Any:
    _ensure_digits(value, kind, path, kind.precision)
    return value


def _timestamp(value: Any, kind: Any, path: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _MOST_S:
        raise _misfit(value, kind, path)
    if isinstance(value, str) and _NO_DAY.match(value):
        raise _misfit(value, kind, path)  # Spark would make a time of today, or take digits alone for a year
    _ensure_digits(value, kind, path, _MICROS)
    return value


def _ensure_digits(value: Any, kind: Any, path: str, most: int) -> None:
    if isinstance(value, str) and (found := _FRACTION.search(value)) and found[1][most:].strip("0"):
        raise _misfit(value, kind, path)


def _binary(value: Any, kind: Any, path: str) -> Any:
    if isinstance(value, str) and _PADDED_WITHIN.search(value):
        raise _misfit(value, kind, path)  # Spark accepts two encodings of the same bytes
    return value


def _interval(value: Any, kind: Any, path: str) -> Any:
    if isinstance(value, str):
        is_read = isinstance(kind, T.DayTimeIntervalType) or _INTERVAL.match(value)
        if not is_read or any(found[_MICROS:].strip("0") for found in _MICROS_OF_SECOND.findall(value)):
            raise _misfit(value, kind, path)  # Spark reads a calendar interval that it does not understand as null
    return value


def _dumped(value: Any) -> bytes:
    return orjson.dumps(_with_digits(value))


def _with_digits(value: Any) -> Any:
    """Return a value with the digits of numbers that orjson does not write, or writes with an exponent."""
    if isinstance(value, dict):
        return {name: _with_digits(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_digits(item) for item in value]
    if isinstance(value, float) and 0 < abs(value) < _LEAST_WITHOUT_EXPONENT:
        return orjson.Fragment(digits_of(Decimal(repr(value))))
    is_for_orjson = not isinstance(value, int | Decimal) or (isinstance(value, int) and abs(value) <= _MOST_LONG)
    return value if is_for_orjson else orjson.Fragment(digits_of(Decimal(value)))


_LEAVES: Mapping[type[Any], Callable[[Any, Any, str], Any]] = {
    T.ByteType: _byte,
    T.FloatType: _float,
    T.DoubleType: _double,
    T.DecimalType: _exact_decimal,
    T.DateType: _date,
    T.TimestampType: _timestamp,
    T.TimestampNTZType: _timestamp,
    T.TimeType: _time,
    T.BinaryType: _binary,
    T.DayTimeIntervalType: _interval,
    T.CalendarIntervalType: _interval,
    T.StringType: _string,
    T.VariantType: _variant,
}
