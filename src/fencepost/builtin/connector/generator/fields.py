"""Generated values: each a function of seed, row number and field."""

import datetime as dt
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fencepost.api import ConfigError, Schema
from fencepost.record.schema import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP

Make = Callable[[int, int], Any]
"""Returns a value for a row number and 64 random-looking bits."""

FIRST_MOMENT = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_TEXT = """
amber anchor autumn barley beacon birch canyon cedar cobalt copper coral crane delta ember falcon fern fjord flint
garnet ginger glacier harbor hazel heron indigo iris ivory jasper juniper kelp lagoon lark laurel lichen lilac linden
lotus maple marble meadow mist moss nectar oak ocean olive onyx opal orchid otter pebble pine prairie quartz raven
reed ridge river saffron sage slate sparrow spruce thistle tide timber tulip umber valley velvet violet walnut willow
wren zephyr
"""
WORDS = tuple(_TEXT.split())
_MASK = (1 << 64) - 1
_SPEC = re.compile(r"(?P<name>[^:]+):(?P<kind>[a-z0-9]+)(?:\((?P<low>-?[\d.]+?)\.\.(?P<high>-?[\d.]+)\))?")


class _Kind(NamedTuple):
    """A kind of field: its schema, and the function that generates values between two bounds."""

    schema: Schema
    make: Callable[[float, float], Make]
    bounds: tuple[float, float] | None = None


def _int(low: float, high: float) -> Make:
    start, count = int(low), int(high) - int(low) + 1
    return lambda number, bits: start + bits % count


def _double(low: float, high: float) -> Make:
    return lambda number, bits: round(low + (high - low) * (bits / _MASK), 2)


_KINDS = {
    "sequence": _Kind(INT64, lambda low, high: lambda number, bits: number),
    "int": _Kind(INT64, _int, (0, 1000)),
    "double": _Kind(FLOAT64, _double, (0, 1)),
    "boolean": _Kind(BOOLEAN, lambda low, high: lambda number, bits: bool(bits & 1)),
    "word": _Kind(STRING, lambda low, high: lambda number, bits: WORDS[bits % len(WORDS)]),
    "uuid": _Kind(
        STRING, lambda low, high: lambda number, bits: str(uuid.UUID(int=mixed(bits) << 64 | bits, version=4))
    ),
    "timestamp": _Kind(
        TIMESTAMP, lambda low, high: lambda number, bits: FIRST_MOMENT + dt.timedelta(seconds=number % 10**10)
    ),
}


class Fields:
    """The fields of a row, parsed from texts such as `price:double(1..100)`. Raises ConfigError for a wrong one."""

    def __init__(self, specs: Sequence[str], seed: int) -> None:
        parsed = [_parsed(spec) for spec in specs]
        self.schema = Schema.struct({name: schema for name, schema, _ in parsed}, name="fencepost.datagen.Row")
        self._makers = [(name, mixed(seed * 1_000_003 + i), make) for i, (name, _, make) in enumerate(parsed)]

    def row(self, number: int) -> dict[str, Any]:
        """Return row `number`."""
        return {name: make(number, mixed(salt + number)) for name, salt, make in self._makers}


def mixed(number: int) -> int:
    """Return 64 bits that look random (the finaliser of SplitMix64: Steele, Lea and Flood, 2014)."""
    z = (number + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def bad_fields(specs: Sequence[str]) -> str | None:
    """Return why the fields are wrong, or None."""
    try:
        names = [_parsed(spec)[0] for spec in specs]
    except ConfigError as error:
        return str(error)
    if not names:
        return "at least one field is needed"
    twice = next((name for name in names if names.count(name) > 1), None)
    return None if twice is None else f"field {twice} occurs twice"


def _parsed(spec: str) -> tuple[str, Schema, Make]:
    found = _SPEC.fullmatch(spec)
    kind = None if found is None else _KINDS.get(found["kind"])
    if found is None or kind is None:
        raise ConfigError(f"{spec} is not name:kind with a kind of {', '.join(_KINDS)}")
    low, high = kind.bounds or (0, 0)
    if found["low"] is not None:
        if kind.bounds is None:
            raise ConfigError(f"{spec}: {found['kind']} takes no bounds")
        low, high = _bounds(spec, found["low"], found["high"])
    return found["name"].strip(), kind.schema, kind.make(low, high)


def _bounds(spec: str, low: str, high: str) -> tuple[float, float]:
    try:
        bounds = float(low), float(high)
    except ValueError:
        raise ConfigError(f"{spec}: the bounds are not two numbers") from None
    if bounds[0] > bounds[1]:
        raise ConfigError(f"{spec}: the first bound is above the second")
    return bounds
