"""How a batch is divided that cannot be processed as columns, so that one unusual record does not make all slow."""

from collections.abc import Callable
from typing import TypeVar

from fencepost.api import UnavailableError

T = TypeVar("T")

PART = 250
"""Records of a part: few, as one unusual record makes a part slow, but enough that columns are still fast."""

MISSES = 4
"""After so many parts in a row that could not be columns either, the others are not tried."""


def in_parts(
    count: int,
    columns: Callable[[int, int], T | None],
    one_by_one: Callable[[int, int], T],
    *,
    is_divided: bool,
    is_away: bool = False,
) -> list[T]:
    """Return the results of a batch of `count` records that could not be processed as columns as a whole, in order.

    Both functions process the records from the first index up to before the second. `columns` returns None if it
    cannot, or raises UnavailableError; `one_by_one` always can, and waits for what is away: one record does, and no
    other columns are tried before. Each try could take as long as a registry is waited for that answers nothing.

    Args:
        is_divided: False if there is no use in trying parts.
        is_away: The whole batch failed with UnavailableError.
    """
    found: list[T] = []
    start = misses = 0
    while is_divided and count > PART and start < count and misses < MISSES:
        stop = min(start + PART, count)
        try:
            part = None if is_away else columns(start, stop)
        except UnavailableError:
            is_away = True
        if is_away:
            found.append(one_by_one(start, start + 1))
            start, is_away = start + 1, False
            continue
        misses = misses + 1 if part is None else 0
        found.append(one_by_one(start, stop) if part is None else part)
        start = stop
    return [*found, one_by_one(start, count)] if start < count else found
