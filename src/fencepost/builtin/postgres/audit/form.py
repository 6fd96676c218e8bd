"""One text for each value, made by Postgres of a column, and by Python of what a topic has for it.

Both are the same exactly if the values are, whatever their form in the topic: a decimal has no zeros at its end, a
double is its eight bytes, a moment is a number of microseconds. Where a form of the topic has less than the column, as
milliseconds do, both have as much as the topic's.
"""

import datetime as dt
import json
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from fencepost.api import Schema, SchemaType
from fencepost.builtin.postgres.envelope.meaning import Kind
from fencepost.builtin.postgres.envelope.moment import INFINITE_US, time_of_day
from fencepost.builtin.postgres.envelope.number import SPECIAL
from fencepost.builtin.postgres.sink.text import INFINITE_DAYS, column_type
from fencepost.record.java_value import EPOCH_DAY, milliseconds
from fencepost.record.type_table import DECIMAL_NAME

Text = Callable[[Any], str | None]
_ITEM, _NULL_ITEM = "\x1d", "\x1c"
_DAY_US = 86_400_000_000
_FAR = "far"
"""Stands for a moment before the year 1, after 9999, or at infinity, in a form with a written year."""


class Form(NamedTuple):
    """`sql` has the column as `{c}`, and gives NULL for NULL; `text` gets no None."""

    sql: str
    text: Text


def form_of(kind: Kind, schema: Schema | None) -> Form | None:
    """Return the form of a column's values whose schema in the topic is this; None if they cannot be compared.

    Args:
        kind: The column's type, below all domains.
        schema: None for a value of JSON without one: its type is Python's.
    """
    if kind.element is not None:
        return _of_array(kind, schema)
    if kind.labels:
        return _OUTPUT if _is(schema, SchemaType.STRING) else None
    made = _FORMS.get(kind.name)
    return None if made is None else made(schema)


def pg_jsonb(text: str) -> str:
    """Return a JSON text as Postgres prints it once it is `jsonb`.

    >>> pg_jsonb('{"bb": 1.50, "a": [1e2, null], "a": "ü"}')
    '{"a": "ü", "bb": 1.50}'
    """
    return _dumped(json.loads(text, parse_float=Decimal))


def _is(schema: Schema | None, *types: SchemaType) -> bool:
    return schema is None or schema.type in types


def _name(schema: Schema | None) -> str:
    return "" if schema is None or schema.name is None else schema.name.removeprefix("io.debezium.")


def _of_array(kind: Kind, schema: Schema | None) -> Form | None:
    """Return the form of an array: its items one after the other, whatever its dimensions."""
    own = None if schema is None else schema.value_schema
    item = form_of(Kind(kind.element or "", kind.modifier, None, kind.labels), own)
    if item is None or not _is(schema, SchemaType.ARRAY):
        return None
    each = item.sql.format(c="item")
    sql = (
        f"CASE WHEN {{c}} IS NOT NULL THEN (SELECT coalesce(string_agg(coalesce({each}, chr(28)) || chr(29), '' ORDER "
        "BY place), '') FROM unnest({c}) WITH ORDINALITY AS items(item, place)) END"
    )
    text = item.text

    def joined(value: Any) -> str:
        parts = [_NULL_ITEM if (t := None if each is None else text(each)) is None else t for each in _flat(value)]
        return "".join(part + _ITEM for part in parts)

    return Form(sql, joined)


def _flat(value: Any) -> list[Any]:
    if not any(isinstance(each, list) for each in value):
        return list(value)
    return [item for each in value for item in (_flat(each) if isinstance(each, list) else [each])]


def _integer(schema: Schema | None) -> Form | None:
    return Form("{c}::text", _whole) if _is(schema, *_INTEGERS) else None


_INTEGERS = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)


def _whole(value: Any) -> str:
    return str(int(value))


def _boolean(schema: Schema | None) -> Form | None:
    return Form("{c}::text", lambda value: "true" if value else "false") if _is(schema, SchemaType.BOOLEAN) else None


def _double(schema: Schema | None) -> Form | None:
    is_number = _is(schema, SchemaType.FLOAT32, SchemaType.FLOAT64, *_INTEGERS) and _name(schema) == ""
    return Form(_SEND8.format("{c}"), _send8) if is_number else None


def _real(schema: Schema | None) -> Form | None:
    is_number = _is(schema, SchemaType.FLOAT32, SchemaType.FLOAT64) and _name(schema) == ""
    return Form("encode(float4send({c}), 'hex')", _send4) if is_number else None


_SEND8 = "encode(float8send({}), 'hex')"


def _send8(value: Any) -> str:
    return struct.pack(">d", value).hex()


def _send4(value: Any) -> str:
    return struct.pack(">f", value).hex()


def _numeric(schema: Schema | None) -> Form | None:
    if schema is not None and schema.type is SchemaType.FLOAT64:
        return Form(_SEND8.format("{c}::float8"), _send8)
    return _exact("{c}", schema)


def _money(schema: Schema | None) -> Form | None:
    if schema is not None and schema.type is SchemaType.FLOAT64:
        return Form(_SEND8.format("{c}::numeric::float8"), _send8)
    return _exact("{c}::numeric", schema)


def _exact(number: str, schema: Schema | None) -> Form | None:
    """Return the form of a decimal. NaN and infinity, which most forms of the topic do not have, are as NULL."""
    sql = f"CASE WHEN {number}::text NOT IN ('NaN', 'Infinity', '-Infinity') THEN trim_scale({number})::text END"
    if schema is None or schema.type in _INTEGERS or schema.name == DECIMAL_NAME:
        return Form(sql, _plain)
    if schema.type is SchemaType.STRING and schema.name is None:
        return Form(sql, lambda value: None if value in _SPECIAL else _plain(Decimal(value)))
    if _name(schema) == "data.VariableScaleDecimal":
        written = column_type(schema).text
        return Form(sql, lambda value: _plain(Decimal(written(value))))
    return None


_SPECIAL = frozenset((*SPECIAL, *SPECIAL.values()))


def _plain(value: Any) -> str:
    text = format(Decimal(repr(value) if isinstance(value, float) else value), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _text(schema: Schema | None) -> Form | None:
    return Form("{c}", _str) if _is(schema, SchemaType.STRING) else None


def _other_text(schema: Schema | None) -> Form | None:
    return _OUTPUT if _is(schema, SchemaType.STRING) else None


def _padded(schema: Schema | None) -> Form | None:
    return Form("{c}::text", lambda value: _str(value).rstrip(" ")) if _is(schema, SchemaType.STRING) else None


def _jsonb(schema: Schema | None) -> Form | None:
    if schema is None or schema.type in (SchemaType.MAP, SchemaType.STRUCT):
        return Form("{c}::text", lambda value: pg_jsonb(_JSON_TEXT(value)))
    return Form("{c}::text", lambda value: pg_jsonb(_str(value))) if schema.type is SchemaType.STRING else None


_JSON_TEXT = column_type(Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=None)).text


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is no text")
    return value


_OUTPUT = Form("CASE WHEN {c} IS NOT NULL THEN format('%s', {c}) END", _str)


def _bytes(schema: Schema | None) -> Form | None:
    plain = schema is not None and schema.type is SchemaType.BYTES and schema.name is None
    return Form("encode({c}, 'hex')", lambda value: bytes(value).hex()) if plain else None


def _bits(schema: Schema | None) -> Form | None:
    if schema is not None and schema.type is SchemaType.BOOLEAN:
        return Form("{c}::text", lambda value: "1" if value else "0")
    return Form("ltrim({c}::text, '0')", _set_bits) if _name(schema) == "data.Bits" else None


def _set_bits(value: Any) -> str:
    number = int.from_bytes(bytes(value), "little")
    return f"{number:b}" if number else ""


def _date(schema: Schema | None) -> Form | None:
    if _name(schema) not in ("time.Date", "org.apache.kafka.connect.data.Date"):
        return None
    sql = "CASE WHEN isfinite({c}) THEN ({c} - date '1970-01-01')::text ELSE {c}::text END"
    return Form(
        sql, lambda value: _days(value.toordinal() - EPOCH_DAY.toordinal() if isinstance(value, dt.date) else value)
    )


def _days(value: int) -> str:
    return INFINITE_DAYS.get(value) or str(value)


def _time(schema: Schema | None) -> Form | None:
    unit = _UNITS.get(_name(schema))
    if unit is None:
        return None
    sql = f"floor(extract(epoch from {{c}}) * {min(unit, 1_000_000)})::bigint::text"
    return Form(sql, lambda value: str(_since_midnight(value, unit)))


def _since_midnight(value: Any, unit: int) -> int:
    if isinstance(value, dt.time):
        return milliseconds(value)
    return int(value) // max(unit // 1_000_000, 1)


_UNITS = {
    "time.Time": 1_000, "time.MicroTime": 1_000_000, "time.NanoTime": 1_000_000_000,
    "time.Timestamp": 1_000, "time.MicroTimestamp": 1_000_000, "time.NanoTimestamp": 1_000_000_000,
    "org.apache.kafka.connect.data.Time": 1_000, "org.apache.kafka.connect.data.Timestamp": 1_000,
}  # fmt: skip
"""How many units a second has. What is finer than Postgres's microseconds is left out."""


def _zoned_time(schema: Schema | None) -> Form | None:
    if _name(schema) != "time.ZonedTime":
        return None
    sql = f"mod(floor(extract(epoch from {{c}}) * 1000000)::bigint + 2 * {_DAY_US}::bigint, {_DAY_US})::text"
    return Form(sql, lambda value: str(time_of_day(value.removesuffix("Z")) % _DAY_US))


def _moment(schema: Schema | None) -> Form | None:
    """Return the form of a timestamp, with or without a zone: sessions are in UTC."""
    name = _name(schema)
    if name in ("time.ZonedTimestamp", "time.IsoTimestamp"):
        sql = (
            "CASE WHEN {c} >= '0001-01-01' AND {c} < '10000-01-01' THEN to_char({c}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US') "
            f"WHEN {{c}} IS NOT NULL THEN '{_FAR}' END"
        )
        return Form(sql, _written)
    unit = _UNITS.get(name)
    if unit is None:
        return None
    infinite = {_since(us, unit): text for text, us in INFINITE_US.items()}
    number = f"floor(extract(epoch from {{c}}) * {min(unit, 1_000_000)})::bigint"
    last = f"CASE WHEN abs({number}) <= {((1 << 63) - 1) // 1000} THEN {number}::text END"
    shown = last if unit == 1_000_000_000 else f"{number}::text"  # nanoseconds of far moments are null in the topic
    sql = f"CASE WHEN isfinite({{c}}) THEN {shown} ELSE {{c}}::text END"

    def text(value: Any) -> str:
        number = milliseconds(value) if isinstance(value, dt.datetime) else value
        return infinite.get(number) or str(number // max(unit // 1_000_000, 1))

    return Form(sql, text)


def _since(us: int, unit: int) -> int:
    if unit == 1_000_000_000:
        return (1 << 63) - 1 if us > 0 else -(1 << 63)
    return us * unit // 1_000_000


def _written(value: Any) -> str:
    """Return a moment of ISO 8601 in UTC with six decimals."""
    if len(value) < 20 or value[4] != "-" or value[0] in "+-" or not value.endswith("Z"):
        return _FAR
    whole, _, fraction = value[:-1].partition(".")
    return f"{whole}.{fraction:0<6.6}"


def _interval(schema: Schema | None) -> Form | None:
    """Return the form of what Debezium writes: microseconds, with months of 30.4375 days, in doubles."""
    if _name(schema) != "time.MicroDuration":
        return None
    part = {name: f"extract({name} from {{c}})" for name in ("year", "month", "day", "hour", "minute", "second")}
    days = f"(({part['year']} * 12 + {part['month']})::float8 * 30.4375::float8 + {part['day']}::float8)"
    minutes = f"(({days} * 24 + {part['hour']}::float8) * 60 + {part['minute']}::float8)"
    return Form(f"trunc(({minutes} * 60 + {part['second']}::float8) * 1000000)::bigint::text", _whole)


def _dumped(value: Any) -> str:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return "{" + ", ".join(f"{_quoted(key)}: {_dumped(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_dumped, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_FORMS: Mapping[str, Callable[[Schema | None], Form | None]] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), _integer),
    **dict.fromkeys(("text", "varchar"), _text),
    **dict.fromkeys((
        "char", "cidr", "citext", "daterange", "inet", "int4range", "int8range", "isbn", "json", "ltree", "macaddr",
        "macaddr8", "name", "numrange", "tsrange", "tstzrange", "tsvector", "uuid", "xml",
    ), _other_text),
    **dict.fromkeys(("bit", "varbit"), _bits),
    **dict.fromkeys(("timestamp", "timestamptz"), _moment),
    "bool": _boolean, "bpchar": _padded, "bytea": _bytes, "date": _date, "float4": _real, "float8": _double,
    "interval": _interval, "jsonb": _jsonb, "money": _money, "numeric": _numeric, "time": _time, "timetz": _zoned_time,
}  # fmt: skip
