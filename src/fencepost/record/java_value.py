"""Values as Java treats and prints them: floating-point numbers with 32 bits, integers of a fixed width or of any
size as the bytes of a BigInteger, times as milliseconds since 1970 (in UTC unless they say otherwise), and UTF-8.

Java reads what is not UTF-8 as U+FFFD.
"""

import codecs
import datetime as dt
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any

from fencepost.record.schema import Schema
from fencepost.record.type_table import SchemaType

REPLACED = "fencepost.java"
"""For `errors=` when UTF-8 is decoded. Python's own `replace` divides halves of surrogate pairs in other places."""


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    first, *following = error.object[error.start : error.start + 3]
    if first == 0xED and following and 0xA0 <= following[0] <= 0xBF:  # half of a pair: one character for all its bytes
        is_whole = len(following) == 2 and 0x80 <= following[1] <= 0xBF
        return "\ufffd", error.start + (3 if is_whole else 2)
    return "\ufffd", error.end


codecs.register_error(REPLACED, _replace)


def as_java_writes(text: str) -> str:
    """Return what is read of a text that Java has written as UTF-8: halves of surrogate pairs have become `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def java_decoded(data: bytes) -> str:
    """Return the text that Java reads."""
    return data.decode("utf-8", REPLACED)


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EPOCH_DAY = EPOCH.date()
MILLISECOND = dt.timedelta(milliseconds=1)
DAY_MS = 24 * 60 * 60 * 1000


def milliseconds(value: dt.date | dt.time) -> int:
    """Return a datetime or date as milliseconds since 1970, and a time as those of its day."""
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return (aware - EPOCH) // MILLISECOND
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return (value - EPOCH_DAY).days * DAY_MS


def moment(ms: int) -> dt.datetime:
    """Return milliseconds since 1970 as a datetime. Raises ValueError before the year 1 and after 9999."""
    try:
        return EPOCH + ms * MILLISECOND
    except OverflowError:
        raise ValueError(f"{ms} ms since 1970 is not between the years 1 and 9999") from None


def fits(number: int, bits: int) -> bool:
    """Return whether a signed integer of `bits` holds the number."""
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1)


def cut(number: int, bits: int) -> int:
    """Return the lowest `bits` of a number as a signed integer, as Java's narrowing conversion does."""
    return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def big_integer(number: int) -> bytes:
    """Return the bytes of Java's BigInteger: as few as hold the number and its sign, the highest first."""
    bits: int = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


_FLOAT32 = struct.Struct("=f")
_SHORTEST_DIGITS, _MOST_DIGITS = 6, 9
_LEAST_NORMAL = 2.0**-126


def float32(value: float) -> float:
    """Return the nearest 32-bit number. Raises OverflowError if the number is out of range."""
    found: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    return found


def shortest_float32(value: float) -> float:
    """Return the number with the fewest digits that has the 32-bit value `value`, as Java prints: 0.1, 123456.79."""
    if not math.isfinite(value):
        return value
    packed = _FLOAT32.pack(value)
    for digits in range(_SHORTEST_DIGITS if abs(value) >= _LEAST_NORMAL else 2, _MOST_DIGITS):
        short = float(f"{value:.{digits}g}")
        if _FLOAT32.pack(short) == packed:
            return short
    return float(f"{value:.{_MOST_DIGITS}g}")


def java_float_text(value: float) -> str:
    """Return a number as Java's `Double.toString` does: `1.0E10`, `1.0E-4`, `NaN`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:.{max(_significant(value) - 1, 1)}e}".partition("e")
    return f"{mantissa}E{int(exponent)}"


def _significant(value: float) -> int:
    digits = repr(value).lower().partition("e")[0].replace(".", "").replace("-", "").strip("0")
    return len(digits)


def _refused(_: object) -> str:
    raise TypeError("bytes have no text in Java")


def java_text(schema: Schema | None, value: Any, of_bytes: Callable[[Any], str] = _refused) -> str:
    """Return a value as Java's `toString` does. Bytes have no text in Java: `of_bytes` may give them one.

    Raises TypeError for bytes without it.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview):
        return of_bytes(value)
    if isinstance(value, Mapping):
        if schema is not None and schema.type is SchemaType.STRUCT:
            members = [(f.name, f.schema, value.get(f.name)) for f in schema.fields]
            texts = [f"{n}={java_text(s, v, of_bytes)}" for n, s, v in members if v is not None]
            return "Struct{" + ",".join(texts) + "}"
        of_key, of_value = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
        pairs = [f"{java_text(of_key, k, of_bytes)}={java_text(of_value, v, of_bytes)}" for k, v in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        member = schema.value_schema if schema is not None else None
        return "[" + ", ".join([java_text(member, v, of_bytes) for v in value]) + "]"
    if isinstance(value, float):
        is_short = schema is not None and schema.type is SchemaType.FLOAT32
        return java_float_text(shortest_float32(value) if is_short else value)
    return "null" if value is None else str(value)


def java_texts(
    schema: Schema | None, values: Sequence[Any], of_bytes: Callable[[Any], str] = _refused
) -> Sequence[str]:
    """Return the texts of a column of values: what `java_text` returns for each, with one look at their types."""
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is str:
        return values
    if kind in _PRINTED:
        return list(map(str, values))
    if kind is bool:
        return ["true" if value else "false" for value in values]
    if kind is float and (schema is None or schema.type is not SchemaType.FLOAT32):
        return [repr(value) if 1e-3 <= value < 1e7 else java_float_text(value) for value in values]
    if kind is dict and schema is not None and schema.type is SchemaType.STRUCT and schema.fields:
        return _struct_texts(schema, values, of_bytes)
    return [java_text(schema, value, of_bytes) for value in values]


def _members(name: str, structs: Sequence[Any]) -> list[Any]:
    try:
        return list(map(itemgetter(name), structs))
    except KeyError:  # a field that is not given is null
        return [struct.get(name) for struct in structs]


_PRINTED: frozenset[type | None] = frozenset({int, Decimal, dt.datetime, dt.date, dt.time})


def _struct_texts(schema: Schema, structs: Sequence[Any], of_bytes: Callable[[Any], str]) -> list[str]:
    columns: list[Sequence[str]] = []
    template = ""
    for field in schema.fields:
        column = _members(field.name, structs)
        begin = f",{field.name}="
        if type(None) not in set(map(type, column)):
            columns.append(java_texts(field.schema, column, of_bytes))
            template += begin.replace("%", "%%") + "%s"
        else:
            present = iter(java_texts(field.schema, [value for value in column if value is not None], of_bytes))
            columns.append(["" if value is None else begin + next(present) for value in column])
            template += "%s"
    if template.startswith(","):  # else the comma is in the text of the first field that is not null
        template = f"Struct{{{template[1:]}}}"
        return [template % row for row in zip(*columns, strict=True)]
    return [f"Struct{{{(template % row)[1:]}}}" for row in zip(*columns, strict=True)]
