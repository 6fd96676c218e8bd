"""Checks of values against their Connect types, for formats whose libraries take more than Connect does; and how all
encoders treat structs, unions and parts of compound schemas.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.logical import shown
from fencepost.record.java_value import float32
from fencepost.record.type_table import INTEGER_BITS

Check = Callable[[Any], Any]


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
