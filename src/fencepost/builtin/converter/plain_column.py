"""Whether a whole column has the type of a schema as it is: one look at all values instead of one at each."""

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any

from fencepost.record import SchemaType
from fencepost.record.java_integer import INTEGER_BITS


def are_plain(kind: SchemaType, column: Sequence[Any], kinds: set[type]) -> bool:
    """Say whether all values fit, and are the same in JSON; False if that is unknown. `kinds` are their types."""
    expected, test = _PLAIN.get(kind, (None, None))
    return kinds == {expected} and (test is None or test(column))


def _within(bits: int) -> Callable[[Sequence[int]], bool]:
    limit = 1 << (bits - 1)
    return lambda column: -limit <= min(column) and max(column) < limit


def _all_finite(column: Iterable[float]) -> bool:
    return all(map(isfinite, column))


_PLAIN: dict[SchemaType, tuple[type, Callable[[Sequence[Any]], bool] | None]] = {
    **{kind: (int, _within(bits)) for kind, bits in INTEGER_BITS.items()},
    SchemaType.FLOAT64: (float, _all_finite),
    SchemaType.BOOLEAN: (bool, None),
    SchemaType.STRING: (str, None),
}
