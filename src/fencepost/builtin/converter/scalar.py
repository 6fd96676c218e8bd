"""Checks of plain values against their Connect types, for formats whose libraries take more than Connect does."""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.logical import shown
from fencepost.record.java_float import float32
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
