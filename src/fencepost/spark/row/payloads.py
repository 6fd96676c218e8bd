"""Payloads of values with a schema as texts from which Spark reads what the schema says, on executors.

`from_json` sees the JSON text alone: it takes a Timestamp for a number of seconds. So values of logical types are
written as texts that `from_json` reads exactly, in any year. A value that does not fit its column is refused, by name.
"""

import base64
import datetime as dt
import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812

from fencepost.record.java_value import DAY_MS
from fencepost.record.schema import DATE, TIME, TIMESTAMP
from fencepost.record.type_table import DECIMAL_NAME, INTEGER_BITS, MOST_DIGITS, SchemaType, whole_bits
from fencepost.spark.row.columns import LAST_YEAR
from fencepost.spark.row.kafka_columns import MISFIT_REASON, READ

_SECOND_MS = 1_000
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400  # after this many years the calendar repeats itself
_EPOCH_DAY = dt.date(1970, 1, 1)
_MOST_MS = ((1 << 63) - 1) // 1_000  # Spark counts microseconds in 64 bits
_MOST_DAYS = 1 << 31
_MILLIS = 3
_MOST_DIGITS = 10_000
_MOST_DECIMAL_BYTES = 1_024  # Spark's 38 digits take 16; Python prints integers of up to 4,300 digits
_MOST_PLAIN = 100  # the most digits written without an exponent: Spark reads a number with one as a double
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_SCALE = re.compile(r"[+-]?\d{1,5}", re.ASCII)
_MOST_SHOWN, _LONGEST_REASON = 40, 1_000

UNWRITABLE = "it has a text that is not Unicode (half of a surrogate pair), or is nested too deeply"


class MisfitError(ValueError):
    """A value does not fit the column at `path`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the payload'}: {reason}")


def reason_of(error: Exception) -> str:
    """Return why a record does not fit, as text that can always be encoded and is not long."""
    text = str(error) if isinstance(error, MisfitError) else f"the payload: it cannot be read: {error!r}"
    return text[:_LONGEST_REASON].encode(errors="replace").decode()


def exact_number(text: str) -> Decimal:
    """Return the number of a JSON text, with all its digits. Raises MisfitError if it cannot be represented."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise MisfitError("", f"{shortened(text)} has an exponent that is too large") from None


def digits_of(number: Decimal) -> str:
    """Return a number in JSON, without an exponent unless it has too many digits."""
    text = str(number)
    if "E" not in text:
        return text
    is_short = int(number.as_tuple().exponent) >= -_MOST_PLAIN and number.adjusted() <= _MOST_PLAIN
    return format(number, "f") if is_short else text


def scale_of(parameters: Any, path: str) -> int:
    """Return the scale in a schema's parameters. Raises MisfitError."""
    text = parameters.get("scale") if isinstance(parameters, dict) else None
    if not isinstance(text, str) or not _SCALE.fullmatch(text) or abs(scale := int(text)) > _MOST_DIGITS:
        raise MisfitError(path, f"its schema is a Decimal whose scale is not a number up to {_MOST_DIGITS:,}")
    return scale


def whole_number(value: Any, path: str) -> int:
    """Return a parsed JSON number as an integer. Raises MisfitError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, Decimal) and _is_modest(value) and value == value.to_integral_value():
        return int(value)
    raise MisfitError(path, f"{shown(value)} is not a whole number")


def number_text(value: Any, path: str) -> Decimal:
    """Return a parsed JSON number, or a number in a text, without rounding it. Raises MisfitError."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if is_number or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        number = exact_number(value) if isinstance(value, str) else Decimal(value)
        if _is_modest(number):
            return number
    raise MisfitError(path, f"{shown(value)} is not a number")


def decimal_of(value: Any, scale: int, path: str) -> Decimal:
    """Return the value of a Decimal: base64 of its digits as bytes, or a number. Raises MisfitError."""
    if not isinstance(value, str):
        return number_text(value, path)
    try:
        data = base64.b64decode(value, validate=True)
    except ValueError:  # also for text that is not ASCII
        raise MisfitError(path, f"{shown(value)} is not base64 of a Decimal") from None
    if len(data) > _MOST_DECIMAL_BYTES:
        raise MisfitError(path, f"a Decimal of {len(data):,} bytes has more digits than a column")
    digits = int.from_bytes(data, "big", signed=True)
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


def decimal_text(number: Decimal) -> str:
    """Return all digits of a number, without an exponent."""
    return format(number, "f")


def date_text(days: int, path: str = "") -> str:
    """Return the date that is so many days after 1970-01-01. Raises MisfitError beyond 32 bits."""
    if not -_MOST_DAYS <= days < _MOST_DAYS:
        raise MisfitError(path, f"{shown(days)} days are beyond what a date holds")
    cycles, rest = divmod(days, _CYCLE_DAYS)
    day = _EPOCH_DAY + dt.timedelta(days=rest)
    year = day.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > LAST_YEAR else ""
    return f"{sign}{abs(year):04d}-{day.month:02d}-{day.day:02d}"


def time_text(millis: int, path: str, precision: int) -> str:
    """Return a time of day. Raises MisfitError beyond a day, or for more digits than the column has."""
    if not 0 <= millis < DAY_MS:
        raise MisfitError(path, f"{shown(millis)} ms are not a time of day")
    if precision < _MILLIS and millis % 10 ** (_MILLIS - precision):
        raise MisfitError(path, f"{_of_day(millis)} has more digits than TIME({precision})")
    return _of_day(millis)


def timestamp_text(millis: int, path: str) -> str:
    """Return a timestamp in UTC, without naming the zone. Raises MisfitError for one that Spark cannot hold."""
    if not -_MOST_MS <= millis <= _MOST_MS:
        raise MisfitError(path, f"{shown(millis)} ms since 1970 are beyond what a timestamp holds")
    days, rest = divmod(millis, DAY_MS)
    return f"{date_text(days, path)}T{_of_day(rest)}"


def _is_modest(number: Decimal) -> bool:
    return number.is_finite() and abs(number.adjusted()) <= _MOST_DIGITS


def _of_day(millis: int) -> str:
    seconds, millis = divmod(millis, _SECOND_MS)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}.{millis:03d}"


def shown(value: Any) -> str:
    """Return the beginning of a value, for a message."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return shortened(str(Decimal(value)) if is_number else repr(value))  # Python prints no integer of 4,300 digits


def shortened(text: str) -> str:
    """Return the beginning of a text, for a message."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


Form = Callable[[Any], Any]
"""Returns the value to write for a parsed value. Raises MisfitError."""

_INTEGERS = {kind.value: bits for kind, bits in INTEGER_BITS.items()}
_EXACT_BITS: Mapping[type[Any], int] = {T.FloatType: 24, T.DoubleType: 53}
_TEXT = (T.StringType, T.CharType, T.VarcharType)
_ANYTHING = (*_TEXT, T.VariantType)


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
    width, exact = whole_bits(kind.simpleString()) or None, _EXACT_BITS.get(type(kind))
    if isinstance(kind, _ANYTHING) or (width == bits and width > 8) or (width or 0) > bits or (exact or 0) >= bits:
        return None
    if width is not None:  # also for the same 8 bits: Spark reads 200 as -56
        limit = 1 << (width - 1)
        return _checked(lambda number: -limit <= number < limit, kind, path)
    if exact is not None:
        return _checked(lambda number: abs(number) <= 1 << exact, kind, path)
    raise _unfit(schema, kind, path)


def _unchanged(*kinds: type[Any], may_be_decimal: bool = False) -> Callable[[Mapping[str, Any], Any, str], Form | None]:
    """Return the finder of forms of a schema whose values Spark reads from JSON in columns of these kinds."""

    def form(schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
        if may_be_decimal and isinstance(kind, T.DecimalType):
            return _exact_decimal(kind, path)
        if isinstance(kind, (*_ANYTHING, *kinds)):
            return None
        raise _unfit(schema, kind, path)

    return form


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
    if whole_bits(kind.simpleString()) >= bits:
        return None
    raise _unfit(schema, kind, path, fitting)


def _decimal(schema: Mapping[str, Any], kind: Any, path: str) -> Form | None:
    scale = scale_of(schema.get("parameters"), path)
    if isinstance(kind, T.DecimalType):
        return lambda value: _fitting(decimal_of(value, scale, path), kind, path)
    if isinstance(kind, _TEXT):
        return lambda value: decimal_text(decimal_of(value, scale, path))
    raise _unfit(schema, kind, path, f"DECIMAL({MOST_DIGITS},{scale}) or STRING")


_LOGICAL: Mapping[tuple[str | None, str], Callable[[Mapping[str, Any], Any, str], Form | None]] = {
    (DATE.name, DATE.type.value): _date,
    (TIME.name, TIME.type.value): _time,
    (TIMESTAMP.name, TIMESTAMP.type.value): _timestamp,
    (DECIMAL_NAME, SchemaType.BYTES.value): _decimal,
}
_PLAIN: Mapping[str, Callable[[Mapping[str, Any], Any, str], Form | None]] = {
    "float": _unchanged(T.FloatType, T.DoubleType, may_be_decimal=True),
    "double": _unchanged(T.DoubleType, may_be_decimal=True),
    "string": _unchanged(T.DateType, T.TimeType, T.TimestampType, T.TimestampNTZType, may_be_decimal=True),
    "boolean": _unchanged(T.BooleanType),
    "bytes": _unchanged(T.BinaryType),
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
        return list(map(form, value)) if form is not None else value

    return None if form is None else each


def _each_value(form: Form | None, path: str) -> Form | None:
    def each(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MisfitError(path, "its value is not an object")
        return {name: item if form is None else form(item) for name, item in value.items()}

    return None if form is None else each


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


_SCHEMA, _PAYLOAD = "schema", "payload"
_BEFORE, _BETWEEN, _AFTER = b'{"schema":', b',"payload":', b"}"
_KNOWN_MAX = 1_000
_LONGEST_INT = 18  # orjson writes all of this many digits


def payload_option(columns: T.StructType, *, has_schemas: bool, is_null_replaced: bool) -> str:
    """Return the option that describes values and their columns to executors."""
    fields = {"columns": columns.jsonValue(), "has_schemas": has_schemas, "is_null_replaced": is_null_replaced}
    return orjson.dumps(fields).decode()


def columns_in_option(option: str) -> T.StructType:
    """Return the columns in an option that `payload_option` made."""
    return T.StructType.fromJson(orjson.loads(option)["columns"])


def with_payloads(batches: Iterator[Any], option: str, *, keeps_read: bool) -> Iterator[Any]:
    """Yield batches with the payload in the column `value`, a column MISFIT_REASON, and READ if it is kept.

    Values without schemas are their own payloads.
    """
    fields = orjson.loads(option)
    payloads = Payloads(columns_in_option(option), is_null_replaced=fields["is_null_replaced"])
    for batch in batches:
        values = batch["value"]
        texts, reasons = (
            payloads.taken(values) if fields["has_schemas"] else (values, pa.nulls(len(values), pa.string()))
        )
        made = {name: texts if name == "value" else batch[name] for name in batch.schema.names}
        made[MISFIT_REASON] = reasons
        if keeps_read:
            made[READ] = batch["value"].cast(pa.binary())
        yield pa.RecordBatch.from_pydict(made)


class Payloads:
    """Extracts payloads from many batches of envelopes.

    If all envelopes with one schema begin alike, as those of one writer do, the schema is parsed once.
    """

    def __init__(self, columns: T.StructType, *, is_null_replaced: bool) -> None:
        self._columns = columns
        self._forms = Forms(is_null_replaced=is_null_replaced)
        self._known: dict[bytes, Form | None] = {}

    def taken(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the payloads as text, and why others do not fit; each is in its place, or null."""
        texts: list[bytes | None] = []
        reasons: list[str | None] = []
        for raw in values.cast(pa.binary()).to_pylist():
            text = reason = None
            try:
                text = None if raw is None else self._payload(raw)
            except Exception as error:  # else one record would end every attempt to read the epoch
                reason = reason_of(error)
            texts.append(text)
            reasons.append(reason)
        return pa.array(texts, pa.binary()).view(pa.string()), pa.array(reasons, pa.string())

    def _payload(self, raw: bytes) -> bytes | None:
        end = raw.find(_BETWEEN)
        head = raw[:end]
        if end > 0 and head in self._known and raw.endswith(_AFTER):
            try:
                return _written(self._known[head], raw[end + len(_BETWEEN) : -len(_AFTER)])
            except (ValueError, RecursionError) as error:
                if isinstance(error, MisfitError):
                    raise  # else it is not JSON, or more follows; parsing the whole value finds out
        return self._of_whole(raw, head)

    def _of_whole(self, raw: bytes, head: bytes) -> bytes | None:
        parsed = _parsed(raw)
        if not isinstance(parsed, dict) or _PAYLOAD not in parsed:
            raise MisfitError("", 'it has no envelope of "schema" and "payload"')
        schema = parsed.get(_SCHEMA)
        form = None if schema is None else self._forms.of(schema, self._columns)
        if _is_envelope(raw, head):
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[head] = form
        return _dumped(form, parsed[_PAYLOAD])


def _written(form: Form | None, payload: bytes) -> bytes | None:
    if form is not None:
        return _dumped(form, _loads(payload))
    return _ensured(orjson.loads(payload), payload)


def _dumped(form: Form | None, value: Any) -> bytes | None:
    try:
        made = value if form is None else form(value)
        return _ensured(made, orjson.dumps(made, default=_digits))
    except (orjson.JSONEncodeError, RecursionError):
        raise MisfitError("", UNWRITABLE) from None


def _ensured(value: Any, text: bytes) -> bytes | None:
    """Return the text of a value with columns; None for a null."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise MisfitError("", "it is not an object, and value.schema names columns")
    return text


def _is_envelope(raw: bytes, head: bytes) -> bool:
    """Return whether a value is the schema of `head`, a payload, and nothing else: only then is that its schema."""
    parts = (head[len(_BEFORE) :], raw[len(head) + len(_BETWEEN) : -len(_AFTER)])
    return head.startswith(_BEFORE) and raw.endswith(_AFTER) and all(map(_is_json, parts))


def _parsed(raw: bytes) -> Any:
    try:
        return _loads(raw)
    except MisfitError:
        raise
    except (ValueError, RecursionError):
        raise MisfitError("", "the value is not JSON") from None


def _is_json(text: bytes) -> bool:
    try:
        _loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _loads(text: bytes) -> Any:
    """Parse JSON; numbers that Python or orjson would change stay text."""
    try:
        return _DECODER.decode(text.decode())
    except InvalidOperation:
        raise MisfitError("", "it has a number whose exponent is too large") from None


def _int(text: str) -> int | Decimal:
    return int(text) if len(text) <= _LONGEST_INT else Decimal(text)


def _digits(value: object) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(digits_of(value))
    raise TypeError(f"a {type(value).__name__} came out of JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=_int, parse_constant=Decimal)
