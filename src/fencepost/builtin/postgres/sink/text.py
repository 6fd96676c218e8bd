"""Values of Connect's schemas as Postgres reads them: the type of a column, and the text of its values for COPY.

Names of types, and the meaning of `io.debezium.*` schemas, are those of Debezium (its documentation of the Postgres
connector). Times before the year 1 and after 9999 have no Python value: they are written as Julian days.
"""

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from string import digits
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.postgres.envelope.moment import INFINITE_DAY
from fencepost.record import ArrowColumn
from fencepost.record.binary_column import bytes_of, constant

NULL = "\\N"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_SPECIAL = "\\\t\n\r"
_BYTE_ESCAPES = [(each.encode(), each.translate(_ESCAPES).encode()) for each in _SPECIAL]  # backslashes first
_EPOCH_JULIAN = 2_440_588
_DAY_S = 86_400
_DECIMAL, _DATE, _TIME, _TIMESTAMP = (
    f"org.apache.kafka.connect.data.{name}" for name in ("Decimal", "Date", "Time", "Timestamp")
)
_SRID_FLAG = 0x20000000


class ColumnType(NamedTuple):
    """The type that a created column gets, and the text by which Postgres reads a value that is there.

    `is_plain`: no text has a character that COPY escapes. `kind`: values of it in an Arrow array have the same texts
    by Arrow, as far as Postgres can tell them apart in a column of the types `targets` (any, if there are none).
    """

    name: str
    text: Callable[[Any], str]
    is_plain: bool = True
    is_array: bool = False
    kind: type | None = None
    targets: tuple[str, ...] = ()


_ARROW = {int: "int64", float: "double", bool: "bool", str: "string", dt.datetime: "timestamp[ms, tz=UTC]"}


def copy_array(type_: ColumnType, values: Sequence[Any], target: str) -> Any:
    """Return the fields of a column of type `target` as `copy_column` does, as an Arrow array of bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = _as_array(type_, values, target)
    if found is None:
        texts = copy_column(type_, values)
        try:
            return pa.array(texts, pa.string()).cast(pa.binary())
        except UnicodeEncodeError:
            return pa.array([text.encode("utf-8", "surrogatepass") for text in texts], pa.binary())
    if type_.kind is bool:
        return pc.fill_null(pc.if_else(found, constant(b"t"), constant(b"f")), constant(b"\\N"))
    if type_.kind is dt.datetime:
        utc = found.cast(pa.timestamp(found.type.unit)).cast(pa.string()).cast(pa.binary())
        return pc.fill_null(pc.binary_join_element_wise(utc, constant(b"+00"), constant(b"")), constant(b"\\N"))
    if type_.kind is not str:
        return pc.fill_null(found.cast(pa.string()).cast(pa.binary()), constant(b"\\N"))
    together = bytes(memoryview(bytes_of(found)))
    for special, escape in _BYTE_ESCAPES:
        if special in together:
            found = pc.replace_substring(found, special, escape)
    return pc.fill_null(found.cast(pa.binary()), constant(b"\\N"))


def copy_rows(columns: Sequence[Any]) -> bytes:
    """Return rows of fields, which are arrays of bytes, in COPY's text format."""
    import pyarrow as pa
    import pyarrow.compute as pc

    *fields, last = columns
    try:
        ended = pc.binary_join_element_wise(last, constant(b"\n"), constant(b""))
        return bytes(memoryview(bytes_of(pc.binary_join_element_wise(*fields, ended, constant(b"\t")))))
    except (pa.ArrowInvalid, pa.ArrowCapacityError):  # two gigabytes do not fit into an array
        middle = len(last) // 2
        return b"".join(copy_rows([each[part] for each in columns]) for part in (slice(middle), slice(middle, None)))


def _as_array(type_: ColumnType, values: Sequence[Any], target: str) -> Any | None:
    """Return values of the type's `kind` as an array; None if there are others, or the target is none of its own."""
    import pyarrow as pa

    if type_.kind is None or (type_.targets and not target.startswith(type_.targets)):
        return None
    if isinstance(values, ArrowColumn):
        is_same = str(values.type).rstrip(digits) == _ARROW[type_.kind].rstrip(digits)
        return values.array if is_same else None
    if type_.kind is dt.datetime or not {*map(type, values)} <= {type_.kind, type(None)}:
        return None
    try:
        return pa.array(values, _ARROW[type_.kind])
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        return None


def copy_column(type_: ColumnType, values: Sequence[Any]) -> list[str]:
    """Return the fields of a column in COPY's text format. Raises RecordError for a value of another type."""
    try:
        if not any(value is None for value in values):
            return _escaped(type_, list(map(type_.text, values)))
        present = iter(_escaped(type_, [type_.text(value) for value in values if value is not None]))
        return [NULL if value is None else next(present) for value in values]
    except (TypeError, ValueError, KeyError, ArithmeticError, AttributeError) as error:
        raise RecordError(f"a value does not fit its schema: {type(error).__name__}") from error


def _escaped(type_: ColumnType, texts: list[str]) -> list[str]:
    if type_.is_plain:
        return texts
    together = "".join(texts)
    if not any(each in together for each in _SPECIAL):
        return texts
    return [text.translate(_ESCAPES) for text in texts]


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


_BOOLEANS = {True: "t", False: "f"}
_BITS = {True: "1", False: "0"}


def _bytea(value: Any) -> str:
    return "\\x" + bytes(value).hex()


def _date(value: Any) -> str:
    return value.isoformat() if isinstance(value, dt.date) else _days(value)


def _days(days: int) -> str:
    return INFINITE_DAYS.get(days) or f"J{days + _EPOCH_JULIAN}"


def _clock(unit: int, value: Any) -> str:
    """Return a time of day, given in units of which a second has so many."""
    if isinstance(value, dt.time):
        return value.isoformat()
    seconds, rest = divmod(value, unit)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest * 1_000_000 // unit:06}"


# What Debezium writes for Postgres's infinity, in units a second: PGStatement.DATE_POSITIVE_INFINITY in milliseconds,
# taken for microseconds; and two days of the year 5,877,612 BC.
_INFINITE = {1_000: 9_223_372_036_825_200, 1_000_000: 9_223_372_036_825_200_000, 1_000_000_000: 2**63 - 1}
_MINUS_INFINITE = {1_000: -9_223_372_036_832_400, 1_000_000: -9_223_372_036_832_400_000, 1_000_000_000: -(2**63)}
INFINITE_DAYS = {days: text for text, days in INFINITE_DAY.items()}


def _moment(unit: int, value: int) -> str:
    """Return a moment in UTC, given in units since 1970 of which a second has so many."""
    if value == _INFINITE.get(unit):
        return "infinity"
    if value == _MINUS_INFINITE.get(unit):
        return "-infinity"
    days, rest = divmod(value, _DAY_S * unit)
    return f"{_days(days)} {_clock(unit, rest)}+00"


_ZONED_INFINITE = {"+294247-01-10T04:00:25.200Z": "infinity", "-290308-12-21T19:59:27.600Z": "-infinity"}


def _zoned(value: Any) -> str:
    return _ZONED_INFINITE.get(value, _str(value))


def _timestamp(zone: ZoneInfo | None, value: Any) -> str:
    """Return the time in the zone with its difference from UTC, which `timestamp` ignores and `timestamptz` needs."""
    if not isinstance(value, dt.datetime):
        return _moment(1000, value)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    return str(aware if zone is None else aware.astimezone(zone))


def _bits(width: int, value: Any) -> str:
    number = int.from_bytes(bytes(value), "little")
    return f"{number:0{width}b}" if width else f"{number:b}"


def _variable_scale(value: Mapping[str, Any]) -> str:
    number = int.from_bytes(value["value"], "big", signed=True)
    sign, digits_ = int(number < 0), tuple(map(int, str(abs(number))))
    return str(Decimal((sign, digits_, -value["scale"])))


def _geometry(value: Mapping[str, Any]) -> str:
    """Return EWKB: the well-known binary with the spatial reference in it."""
    wkb, srid = bytes(value["wkb"]), value.get("srid")
    if srid is None:
        return wkb.hex()
    order: Literal["little", "big"] = "little" if wkb[0] else "big"
    kind = int.from_bytes(wkb[1:5], order) | _SRID_FLAG
    number = int(srid).to_bytes(4, order, signed=True)
    return (wkb[:1] + kind.to_bytes(4, order) + number + wkb[5:]).hex()


def _json(value: Any) -> str:
    return json.dumps(value, default=_json_leaf, ensure_ascii=False)


def _json_leaf(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    raise TypeError


def _hstore(value: Any) -> str:
    if isinstance(value, str):
        value = json.loads(value)
    return ",".join(f"{_quoted(k)}=>{'NULL' if v is None else _quoted(v)}" for k, v in value.items())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _array(item: ColumnType, value: Any) -> str:
    if item.is_array:
        return "{" + ",".join(item.text(each) for each in value) + "}"
    return "{" + ",".join("NULL" if each is None else _quoted(item.text(each)) for each in value) + "}"


def _as_text(name: str) -> ColumnType:
    return ColumnType(name, _str, is_plain=False, kind=str)


_DOUBLES = ("double precision", "real")
_TEXT = _as_text("text")
_BYTES = ColumnType("bytea", _bytea, is_plain=False)
_JSON = ColumnType("jsonb", _json, is_plain=False)
_NUMERIC = ColumnType("numeric", str)
_PLAIN: Mapping[SchemaType, ColumnType] = {
    SchemaType.INT8: ColumnType("smallint", int.__repr__, kind=int),
    SchemaType.INT16: ColumnType("smallint", int.__repr__, kind=int),
    SchemaType.INT32: ColumnType("integer", int.__repr__, kind=int),
    SchemaType.INT64: ColumnType("bigint", int.__repr__, kind=int),
    SchemaType.FLOAT32: ColumnType("real", repr, kind=float, targets=_DOUBLES),
    SchemaType.FLOAT64: ColumnType("double precision", repr, kind=float, targets=_DOUBLES),
    SchemaType.BOOLEAN: ColumnType("boolean", _BOOLEANS.__getitem__, kind=bool),
    SchemaType.STRING: _TEXT,
    SchemaType.BYTES: _BYTES,
    SchemaType.MAP: _JSON,
    SchemaType.STRUCT: _JSON,
}
_DEBEZIUM = {
    "time.Date": ColumnType("date", _days),
    "time.Time": ColumnType("time", partial(_clock, 1_000)),
    "time.MicroTime": ColumnType("time", partial(_clock, 1_000_000)),
    "time.NanoTime": ColumnType("time", partial(_clock, 1_000_000_000)),
    "time.Timestamp": ColumnType("timestamp", partial(_moment, 1_000)),
    "time.MicroTimestamp": ColumnType("timestamp", partial(_moment, 1_000_000)),
    "time.NanoTimestamp": ColumnType("timestamp", partial(_moment, 1_000_000_000)),
    "time.ZonedTimestamp": ColumnType("timestamptz", _zoned, is_plain=False),
    "time.ZonedTime": _as_text("timetz"),
    "time.IsoDate": _as_text("date"),
    "time.IsoTime": _as_text("time"),
    "time.IsoTimestamp": _as_text("timestamp"),
    "time.MicroDuration": ColumnType("interval", lambda value: f"{value:d} microseconds"),
    "time.Interval": _as_text("interval"),
    "data.Json": _as_text("jsonb"),
    "data.Uuid": _as_text("uuid"),
    "data.Xml": _as_text("xml"),
    "data.Ltree": _as_text("ltree"),
    "data.TsVector": _as_text("tsvector"),
    "data.VariableScaleDecimal": ColumnType("numeric", _variable_scale),
    "data.geometry.Geometry": ColumnType("geometry", _geometry),
    "data.geometry.Point": ColumnType("geometry", _geometry),
    "data.geometry.Geography": ColumnType("geography", _geometry),
}
_DEBEZIUM_PREFIX = "io.debezium."


def column_type(schema: Schema, zone: ZoneInfo | None = None, target: str | None = None) -> ColumnType:
    """Return the type of values of a schema.

    Args:
        schema: The schema of a field.
        zone: The zone in which Connect's timestamps are written to columns without a zone; None: UTC.
        target: The type of the column if it exists, as `format_type` prints it.
    """
    found = _column_type(schema, zone)
    if target == "hstore" and schema.type in (SchemaType.MAP, SchemaType.STRING):
        return found._replace(text=_hstore, is_plain=False, kind=None)
    if target is not None and target.startswith("bit") and schema.type is SchemaType.BOOLEAN:
        return found._replace(text=_BITS.__getitem__, kind=None)
    return found


def _column_type(schema: Schema, zone: ZoneInfo | None) -> ColumnType:
    name = schema.name or ""
    if name == _DECIMAL:
        return ColumnType(_decimal_name(schema), str)
    if name == _DATE:
        return ColumnType("date", _date)
    if name == _TIME:
        return ColumnType("time", partial(_clock, 1000))
    if name == _TIMESTAMP:
        kind = dt.datetime if zone is None else None
        return ColumnType("timestamp", partial(_timestamp, zone), kind=kind, targets=("timestamp",))
    if name == f"{_DEBEZIUM_PREFIX}data.Bits":
        width = int(dict(schema.parameters).get("length", "0"))
        return ColumnType(f"bit({width})" if 0 < width < 2**31 - 1 else "varbit", partial(_bits, width % (2**31 - 1)))
    if name.startswith(_DEBEZIUM_PREFIX) and name.removeprefix(_DEBEZIUM_PREFIX) in _DEBEZIUM:
        return _DEBEZIUM[name.removeprefix(_DEBEZIUM_PREFIX)]
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        item = _column_type(schema.value_schema, zone)
        return ColumnType(item.name.removesuffix("[]") + "[]", partial(_array, item), is_plain=False, is_array=True)
    return _PLAIN[schema.type]


def _decimal_name(schema: Schema) -> str:
    parameters = dict(schema.parameters)
    precision, scale = parameters.get("connect.decimal.precision"), parameters.get("scale", "0")
    return "numeric" if precision is None else f"numeric({precision},{scale})"


def value_type(value: Any) -> ColumnType:
    """Return the type of a value without a schema. Raises RecordError for one that no column has."""
    return _type_of(type(value))


def _type_of(kind: type) -> ColumnType:
    if issubclass(kind, bool):
        return _PLAIN[SchemaType.BOOLEAN]
    for each, type_ in _BY_KIND.items():
        if issubclass(kind, each):
            return type_
    raise RecordError(f"a {kind.__name__} without a schema has no column type")


_BY_KIND: Mapping[type, ColumnType] = {
    int: _PLAIN[SchemaType.INT64],
    float: _PLAIN[SchemaType.FLOAT64],
    str: _TEXT,
    bytes: _BYTES,
    Decimal: _NUMERIC,
    dt.datetime: ColumnType("timestamp", partial(_timestamp, None)),
    dt.date: ColumnType("date", _date),
    dt.time: ColumnType("time", partial(_clock, 1000)),
}


def schemaless_type(values: Sequence[Any]) -> ColumnType:
    """Return the type of values that have no schema: that of their kind, or one that writes each by its own.

    Raises RecordError as `value_type` does.
    """
    types = [_type_of(kind) for kind in {*map(type, values)} - {type(None)}]
    if len(types) == 1:
        return types[0]
    return ColumnType("text", lambda value: value_type(value).text(value), is_plain=False)
