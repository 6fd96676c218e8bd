"""What Debezium makes of a type of Postgres: a Connect schema, and a function from the type's text to values of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from fencepost.api import BOOLEAN, BYTES, FLOAT32, FLOAT64, INT16, INT32, INT64, STRING, Schema, decimal
from fencepost.builtin.postgres.envelope import compound, moment, number
from fencepost.builtin.postgres.envelope.arrow import ConvertColumn, booleans, cast_to, decimals_of, utc_times
from fencepost.builtin.postgres.envelope.settings import PostgresSettings
from fencepost.record.schema import DATE, TIME, TIMESTAMP

Convert = Callable[[str], Any]
_UNSET = 2_147_483_647


@dataclass(frozen=True)
class Kind:
    """A type: the name that Postgres has for it, below all domains, and the modifier of the column or a domain."""

    name: str
    modifier: int = -1
    element: str | None = None
    """The name of an array's items."""
    labels: tuple[str, ...] = ()
    """Those of an enum, or of an array's enum."""


@dataclass(frozen=True)
class Meaning:
    """`convert` is None if the text itself is the value. `missing` stands for a value that is not sent and not null.

    `convert_column` does what `convert` does, with many values at once; some types have none.
    """

    schema: Schema
    convert: Convert | None
    missing: Any
    convert_column: ConvertColumn | None = None

    def value(self, text: str) -> Any:
        return text if self.convert is None else self.convert(text)


def meaning(kind: Kind, settings: PostgresSettings) -> Meaning | None:
    """Return the meaning of a type; None for one that is left out of records."""
    if kind.element is not None:
        return _array(kind, settings)
    if kind.labels:
        allowed = (("allowed", ",".join(kind.labels)),)
        return Meaning(replace(_named(STRING, "data.Enum"), parameters=allowed), None, "")
    made = _BUILDERS.get(kind.name)
    if made is not None:
        return made(kind, settings)
    plain = _PLAIN.get(kind.name)
    if plain is not None or not settings.include_unknown_datatypes:
        return plain
    return _binary(settings, str.encode)


def _named(schema: Schema, name: str) -> Schema:
    return replace(schema, name=f"io.debezium.{name}", version=1)


def _text(name: str | None = None) -> Meaning:
    return Meaning(STRING if name is None else _named(STRING, name), None, "")


def _point() -> Schema:
    fields = {"x": FLOAT64, "y": FLOAT64, "wkb": BYTES.optional(), "srid": INT32.optional()}
    made = Schema.struct(fields, name="io.debezium.data.geometry.Point")
    return replace(made, version=1, doc="Geometry (POINT)")


def _geometry(name: str) -> Meaning:
    fields = {"wkb": BYTES, "srid": INT32.optional()}
    schema = Schema.struct(fields, name=f"io.debezium.data.geometry.{name}")
    empty = {"wkb": bytes.fromhex("010700000000000000"), "srid": None}
    return Meaning(replace(schema, version=1, doc=name), compound.geometry, empty)


VARIABLE = replace(
    Schema.struct({"scale": INT32, "value": BYTES}, name="io.debezium.data.VariableScaleDecimal"),
    version=1,
    doc="Variable scaled decimal",
)
_STRINGS = (
    "bpchar", "char", "cidr", "citext", "daterange", "inet", "int4range", "int8range", "isbn", "macaddr", "macaddr8",
    "name", "numrange", "text", "tsrange", "tstzrange", "varchar",
)  # fmt: skip
_PLAIN: Mapping[str, Meaning] = {
    **dict.fromkeys(_STRINGS, _text()),
    "bool": Meaning(BOOLEAN, {"t": True, "f": False}.__getitem__, False, booleans),
    "float4": Meaning(FLOAT32, float, 0.0),
    "float8": Meaning(FLOAT64, float, 0.0, cast_to("float64")),
    "geography": _geometry("Geography"),
    "geometry": _geometry("Geometry"),
    "int2": Meaning(INT16, int, 0, cast_to("int16")),
    "int4": Meaning(INT32, int, 0, cast_to("int32")),
    "int8": Meaning(INT64, int, 0, cast_to("int64")),
    "json": _text("data.Json"),
    "jsonb": _text("data.Json"),
    "ltree": _text("data.Ltree"),
    "oid": Meaning(INT64, int, 0, cast_to("int64")),
    "point": Meaning(_point(), compound.point, compound.point("(0,0)")),
    "timetz": Meaning(_named(STRING, "time.ZonedTime"), moment.zoned_time, "00:00:00Z"),
    "tsvector": _text("data.Tsvector"),
    "uuid": _text("data.Uuid"),
    "xml": _text("data.Xml"),
}


_NO_ARRAYS = frozenset(("interval", "money", "name", "point", "refcursor", "varbit", "xml"))
"""The types whose arrays Debezium leaves out."""


def _array(kind: Kind, settings: PostgresSettings) -> Meaning | None:
    if kind.element in _NO_ARRAYS:
        return None
    item = meaning(Kind(kind.element or "", kind.modifier, None, kind.labels), settings)
    if item is None:
        return None
    return Meaning(Schema.array(item.schema.optional()), compound.array(item.convert), [])


def _numeric(kind: Kind, settings: PostgresSettings) -> Meaning:
    mode = settings.decimal_handling_mode.lower()
    precision, scale = precision_and_scale(kind.modifier)
    zero = Decimal((0, (0,), -scale))
    if mode != "precise":
        return (
            Meaning(FLOAT64, float, 0.0, cast_to("float64"))
            if mode == "double"
            else Meaning(STRING, number.plain, format(zero, "f"))
        )
    if precision is None:
        return Meaning(VARIABLE, number.variable, {"scale": 0, "value": b"\0"})
    return Meaning(decimal(scale, precision), number.precise(scale), zero, decimals_of(precision, scale))


def precision_and_scale(modifier: int) -> tuple[int | None, int]:
    """Return the digits of a numeric, and those after the point; None, 0: any. A negative scale adds digits."""
    if modifier < 0:
        return None, 0
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    scale = scale - 2048 if scale >= 1024 else scale
    return (precision, scale) if scale >= 0 else (precision - scale, 0)


def _money(kind: Kind, settings: PostgresSettings) -> Meaning:
    digits, mode = settings.money_fraction_digits, settings.decimal_handling_mode.lower()
    zero = Decimal((0, (0,), -digits))
    if mode == "double":
        return Meaning(FLOAT64, lambda text: float(number.money(text)), 0.0)
    if mode == "string":
        return Meaning(STRING, lambda text: format(number.money(text), "f"), format(zero, "f"))
    return Meaning(decimal(digits), number.precise_money(digits), zero)


def _bits(kind: Kind, settings: PostgresSettings) -> Meaning:
    length = _UNSET if kind.modifier < 0 else kind.modifier
    if length == 1:
        return Meaning(BOOLEAN, {"1": True, "0": False, "": False}.__getitem__, False)
    schema = replace(_named(BYTES, "data.Bits"), parameters=(("length", str(length)),))
    return Meaning(schema, number.bits, b"")


def _bytea(kind: Kind, settings: PostgresSettings) -> Meaning:
    return _binary(settings, lambda text: bytes.fromhex(text[2:]))


def _binary(settings: PostgresSettings, decode: Callable[[str], bytes]) -> Meaning:
    mode = settings.binary_handling_mode.lower()
    if mode == "bytes":
        return Meaning(BYTES, decode, b"")
    write = number.binary(mode)
    return Meaning(STRING, lambda text: write(decode(text)), "")


def _hstore(kind: Kind, settings: PostgresSettings) -> Meaning:
    if settings.hstore_handling_mode.lower() == "map":
        return Meaning(Schema.map(STRING, STRING.optional()), compound.hstore, {})
    return Meaning(_named(STRING, "data.Json"), compound.hstore_json, "{}")


def _interval(kind: Kind, settings: PostgresSettings) -> Meaning:
    if settings.interval_handling_mode.lower() == "string":
        return Meaning(_named(STRING, "time.Interval"), moment.interval_iso, "P0Y0M0DT0H0M0S")
    return Meaning(_named(INT64, "time.MicroDuration"), moment.interval_micros, 0)


def _date(kind: Kind, settings: PostgresSettings) -> Meaning:
    mode = settings.time_precision_mode.lower()
    if mode == "isostring":
        return Meaning(_named(STRING, "time.IsoDate"), moment.iso_date, "1970-01-01Z")
    return Meaning(DATE if mode == "connect" else _named(INT32, "time.Date"), moment.day, 0, cast_to("date32", "int32"))


def _time(kind: Kind, settings: PostgresSettings) -> Meaning:
    mode = settings.time_precision_mode.lower()
    if mode == "isostring":
        return Meaning(_named(STRING, "time.IsoTime"), moment.iso_time, "00:00:00Z")
    if mode == "connect":
        return Meaning(TIME, lambda text: moment.time_of_day(text) // 1000, 0)
    if mode == "nanoseconds":
        return Meaning(_named(INT64, "time.NanoTime"), lambda text: moment.time_of_day(text) * 1000, 0)
    if mode == "adaptive" and decimals(kind.modifier) <= 3:
        return Meaning(_named(INT32, "time.Time"), lambda text: moment.time_of_day(text) // 1000, 0)
    return Meaning(_named(INT64, "time.MicroTime"), moment.time_of_day, 0)


def _timestamp(kind: Kind, settings: PostgresSettings) -> Meaning:
    mode = settings.time_precision_mode.lower()
    if mode == "isostring":
        return Meaning(_named(STRING, "time.IsoTimestamp"), moment.iso_timestamp, "1970-01-01T00:00:00Z")
    if mode == "connect":
        return Meaning(TIMESTAMP, moment.milliseconds, 0)
    if mode == "nanoseconds":
        return Meaning(_named(INT64, "time.NanoTimestamp"), moment.nanoseconds, 0, cast_to("timestamp[ns]", "int64"))
    if mode.startswith("adaptive") and decimals(kind.modifier) <= 3:
        schema = _named(INT64, "time.Timestamp")
        return Meaning(schema, moment.milliseconds, 0, cast_to("timestamp[ms]", "int64"))
    schema = _named(INT64, "time.MicroTimestamp")
    return Meaning(schema, moment.microseconds, 0, cast_to("timestamp[us]", "int64"))


def _timestamptz(kind: Kind, settings: PostgresSettings) -> Meaning:
    schema, digits = _named(STRING, "time.ZonedTimestamp"), decimals(kind.modifier)
    return Meaning(schema, moment.zoned_timestamp(digits), "1970-01-01T00:00:00Z", utc_times(digits))


def decimals(modifier: int) -> int:
    """Return the decimals of a type of times: the modifier, and 6 without one."""
    return 6 if modifier < 0 else modifier


_BUILDERS: Mapping[str, Callable[[Kind, PostgresSettings], Meaning]] = {
    "bit": _bits, "bytea": _bytea, "date": _date, "hstore": _hstore, "interval": _interval, "money": _money,
    "numeric": _numeric, "time": _time, "timestamp": _timestamp, "timestamptz": _timestamptz, "varbit": _bits,
}  # fmt: skip
