"""How a batch is divided that cannot be processed as columns, so that one unusual record does not make others slow."""

from collections.abc import Callable
from typing import Generic, TypeVar

from fencepost.api import UnavailableError

T = TypeVar("T")

PART = 250
"""Records of a part. A part that cannot be columns is halved: few, as that takes its records twice through columns."""

MISSES = 4
"""After so many unusual records in a part, or so many parts full of them in a row, the others are not tried."""


def in_parts(
    count: int,
    columns: Callable[[int, int], T | None],
    one_by_one: Callable[[int, int], T],
    *,
    is_divided: bool,
    is_away: bool = False,
) -> list[T]:
    """Return the results of a batch of `count` records that could not be processed as columns as a whole, in order.

    A part that cannot be columns is halved until the unusual record is alone. A part with many of them goes one by one,
    and the parts after it are not halved until one of them is columns as a whole.

    Both functions process the records from the first index up to before the second. `columns` returns None if it
    cannot, or raises UnavailableError; `one_by_one` always can, and waits for what is away: one record does, and no
    other columns are tried before. Each try could take as long as a registry is waited for that answers nothing. If it
    did not have to wait, a later record of the part does: halves lead to it, with few tries.

    Args:
        is_divided: False if there is no use in trying parts.
        is_away: The whole batch failed with UnavailableError.
    """
    division = _Division(columns, one_by_one)
    full = away_before = 0
    while is_divided and division.end < count and full < MISSES:
        start, stop = division.end, min(division.end + PART, count)
        if start < away_before:
            stop = (start + away_before + 1) // 2
        if is_away:
            division.add_one_by_one(start + 1)
            is_away = False
            continue
        try:
            if stop - start < count and division.adds_columns(stop):
                full = 0
            elif full:
                division.add_one_by_one(stop)
                full += 1
            else:
                full = int(division.adds_many(stop))
        except UnavailableError:
            is_away, away_before = True, stop
    if division.end < count:
        division.add_one_by_one(count)
    return division.found


class _Division(Generic[T]):
    """The results for the records before `end`."""

    def __init__(self, columns: Callable[[int, int], T | None], one_by_one: Callable[[int, int], T]) -> None:
        self.found: list[T] = []
        self.end = 0
        self._misses = 0
        self._columns = columns
        self._one_by_one = one_by_one

    def add_one_by_one(self, stop: int) -> None:
        self.found.append(self._one_by_one(self.end, stop))
        self.end = stop

    def adds_columns(self, stop: int) -> bool:
        """Add the records up to `stop` if they can be columns together."""
        part = self._columns(self.end, stop)
        if part is None:
            return False
        self.found.append(part)
        self.end = stop
        return True

    def adds_many(self, stop: int) -> bool:
        """Add the records up to `stop`, which cannot be columns together. Say whether many of them are unusual."""
        self._misses = 0
        self._halve(stop)
        return self._misses >= MISSES

    def _halve(self, stop: int) -> None:
        if stop - self.end == 1 or self._misses >= MISSES:
            self._misses += 1
            self.add_one_by_one(stop)
            return
        middle = (self.end + stop) // 2
        if self.adds_columns(middle):
            self._halve(stop)  # what is unusual must be in this half: it is not tried as a whole
            return
        self._halve(middle)
        if self._misses >= MISSES or not self.adds_columns(stop):
            self._halve(stop)
