"""Values of Connect's types, as all formats check and convert them.

Checks are for formats whose libraries take more than Connect does. Logical types are schema names that give the
underlying type another meaning: their values are Python's `Decimal`, `date`, `time` and `datetime` (UTC where it says
nothing); date, time and timestamp may also be given as the numbers that stand for them.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.record.java_value import DAY_MS, EPOCH_DAY, big_integer, float32, milliseconds, moment
from fencepost.record.literal import MOST_DIGITS
from fencepost.record.schema import DATE, TIME, TIMESTAMP
from fencepost.record.type_table import DECIMAL_NAME, INTEGER_BITS

_TOO_LARGE = 10**MOST_DIGITS

Check = Callable[[Any], Any]


class LogicalType(NamedTuple):
    """Converts values of a logical type to the underlying type, and back."""

    to_plain: Callable[[Schema, Any], Any]
    from_plain: Callable[[Schema, Any], Any]


def scale_of(schema: Schema) -> int:
    """Return the scale of a decimal schema."""
    try:
        scale = int(dict(schema.parameters)["scale"])
    except (KeyError, ValueError):
        raise RecordError("Invalid Decimal schema: scale parameter not found, or not a number.") from None
    if abs(scale) > MOST_DIGITS:
        raise RecordError(f"Invalid Decimal schema: scale parameter is beyond {MOST_DIGITS}.")
    return scale


def unscaled(schema: Schema, value: Any) -> int:
    """Return a decimal's digits, with as many decimals as the schema has, as one integer.

    Raises RecordError if digits would be lost.
    """
    if not isinstance(value, Decimal) or not value.is_finite():
        raise RecordError(f"Invalid type for Decimal, expected a finite Decimal but was {shown(value)}")
    sign, digits, exponent = value.as_tuple()
    if value == 0:
        return 0
    shift = int(exponent) + scale_of(schema)
    if len(digits) + abs(shift) > MOST_DIGITS:  # a few bytes, 1e999999999, would keep a core busy for days
        raise RecordError(f"Decimal value {value} has mismatching scale for given Decimal.schema, or too many digits")
    number = int("".join(map(str, digits)))
    number, lost = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    if lost:
        raise RecordError(f"Decimal value {value} has mismatching scale for given Decimal.schema")
    return int(-number if sign else number)


def with_scale(schema: Schema, number: int) -> Decimal:
    """Return the decimal with these digits and the schema's scale. Raises RecordError for too many digits."""
    if abs(number) >= _TOO_LARGE:
        raise RecordError(f"Invalid Decimal value: it has more than {MOST_DIGITS} digits")
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale_of(schema)))


def has_many_zeros(number: Decimal) -> bool:
    """Say whether a short finite decimal has thousands of digits: 1e999999999."""
    _, digits, exponent = number.as_tuple()
    return int(exponent) > MOST_DIGITS or -int(exponent) - len(digits) > MOST_DIGITS


def shown(value: Any) -> str:
    """Return the beginning of a value for a message; the type of an integer with too many digits to print."""
    try:
        return repr(value)[:80]
    except ValueError:
        return type(value).__name__


def _decimal(schema: Schema, data: Any) -> Decimal:
    if not isinstance(data, bytes) or not data:
        raise RecordError("Invalid type for Decimal, underlying representation should be bytes with digits")
    return with_scale(schema, int.from_bytes(data, "big", signed=True))


def _to_number(logical: str, kind: type, number_of: Callable[[Any], int]) -> Callable[[Schema, Any], int]:
    def to_number(_: Schema, value: Any) -> int:
        if isinstance(value, kind) and (kind is not dt.date or not isinstance(value, dt.datetime)):
            return number_of(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise RecordError(f"Invalid type for {logical}, expected {kind.__name__} but was {type(value).__name__}")

    return to_number


def _day(_: Schema, days: int) -> dt.date:
    try:
        return EPOCH_DAY + dt.timedelta(days=days)
    except OverflowError:
        raise RecordError(f"Date values must be in the years 1 to 9999, but found {days} days since 1970") from None


def _time(_: Schema, ms: int) -> dt.time:
    if not 0 <= ms < DAY_MS:
        raise RecordError(f"Time values must be milliseconds of a day, below {DAY_MS}, but found {ms}")
    return moment(ms).time()


def _moment(_: Schema, ms: int) -> dt.datetime:
    try:
        return moment(ms)
    except ValueError:
        text = f"Timestamp values must be in the years 1 to 9999, but found {ms} ms since 1970"
        raise RecordError(text) from None


LOGICAL_TYPES: dict[str | None, LogicalType] = {
    DECIMAL_NAME: LogicalType(lambda schema, value: big_integer(unscaled(schema, value)), _decimal),
    DATE.name: LogicalType(_to_number("Date", dt.date, lambda day: (day - EPOCH_DAY).days), _day),
    TIME.name: LogicalType(_to_number("Time", dt.time, milliseconds), _time),
    TIMESTAMP.name: LogicalType(_to_number("Timestamp", dt.datetime, milliseconds), _moment),
}


def mapping(value: Any, kind: SchemaType = SchemaType.STRUCT) -> Mapping[Any, Any]:
    """Return a map or struct. Raises RecordError for anything else, as all of these functions do."""
    if isinstance(value, Mapping):
        return value
    raise misfit(kind, value)


def items(value: Any) -> list[Any] | tuple[Any, ...]:
    if isinstance(value, list | tuple):
        return value
    raise misfit(SchemaType.ARRAY, value)


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise misfit(SchemaType.STRING, value)


def boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise misfit(SchemaType.BOOLEAN, value)


def binary(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise misfit(SchemaType.BYTES, value)


def floating(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise misfit(SchemaType.FLOAT64, value)


def single(value: Any) -> float:
    """Return the nearest number of 32 bits."""
    try:
        return float32(floating(value))
    except OverflowError:
        raise misfit(SchemaType.FLOAT32, value) from None


def integer(schema: Schema, bits: int) -> Check:
    """Return a check for an integer that fits both the schema and `bits`."""
    limit = 1 << (min(bits, INTEGER_BITS.get(schema.type, bits)) - 1)

    def check(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit:
            return value
        raise misfit(schema.type, value)

    return check


def misfit(kind: SchemaType, value: Any) -> RecordError:
    """Return the error for a value of another type."""
    found = value[:80] if isinstance(value, str) else shown(value)
    return RecordError(f"Invalid type for {kind.name}: {type(value).__name__} {found!r}")


Encode = Callable[[Any], Any]


def part(schema: Schema | None) -> Schema:
    """Return the schema of a part. Raises RecordError if it is missing."""
    if schema is None:
        raise RecordError("The schema of an array or map lacks the schema of its items")
    return schema


def struct_encoder(members: Sequence[tuple[str, str, Encode]], *, omits_unknown: bool = False) -> Encode:
    """Return a function from a struct to a dict. `members` are the names of fields here and there, and their encoders.

    It raises RecordError for a misfit, and names the field. Others are refused, or left out where `omits_unknown`.
    """
    known = frozenset(name for name, _, _ in members)

    def encode(value: Any) -> dict[str, Any]:
        if not known.issuperset(mapping(value)) and not omits_unknown:
            raise RecordError(f"{sorted(set(value) - known)[0]} is not a valid field name")
        encoded = {}
        for name, written, encode_field in members:
            try:
                encoded[written] = encode_field(value.get(name))
            except RecordError as error:
                raise RecordError(f"{name}: {error}") from error
        return encoded

    return encode


def member_of_union(value: Any, members: Mapping[str, Any], *, is_optional: bool) -> tuple[str, Any] | None:
    """Return the one field that a union, a struct, has, and its value; None if it may have none.

    Raises RecordError if there are more, or others than `members`, which are by name.
    """
    given = {} if value is None else {name: item for name, item in mapping(value).items() if item is not None}
    if not given and is_optional:
        return None
    if len(given) != 1 or not given.keys() <= members.keys():
        raise RecordError(
            f"A value of a union needs one of its fields ({', '.join(members)}), but has {', '.join(given) or 'none'}"
        )
    ((name, item),) = given.items()
    return name, item
