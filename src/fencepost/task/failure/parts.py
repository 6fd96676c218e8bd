"""How a batch is divided that cannot be processed as columns, so that one unusual record does not make all slow."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PART = 250
"""Records of a part: few, as one unusual record makes a part slow, but enough that columns are still fast."""

MISSES = 4
"""After so many parts in a row that could not be columns either, the others are not tried."""


def in_parts(
    count: int, columns: Callable[[int, int], T | None], one_by_one: Callable[[int, int], T], *, is_divided: bool
) -> list[T]:
    """Return the results of a batch of `count` records that could not be processed as columns as a whole, in order.

    Both functions process the records from the first index up to before the second. `columns` returns None if it
    cannot; `one_by_one` always can. `is_divided` is false if there is no use in trying parts.
    """
    found: list[T] = []
    start = misses = 0
    while is_divided and count > PART and start < count and misses < MISSES:
        stop = min(start + PART, count)
        part = columns(start, stop)
        misses = misses + 1 if part is None else 0
        found.append(one_by_one(start, stop) if part is None else part)
        start = stop
    return [*found, one_by_one(start, count)] if start < count else found
