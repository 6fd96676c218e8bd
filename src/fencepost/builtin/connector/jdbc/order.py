"""The order of a table's rows, a place in it, and the conditions of SQL that select a range: (from, to]."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TIMESTAMP, INCREMENTING = "timestamp", "incrementing"
"""The keys of a source offset, as those of Confluent's connector."""

Place = Mapping[str, Any]
"""A source offset: the last row of a range, by its timestamp (text), its id (a whole number), or both."""


@dataclass(frozen=True)
class Order:
    """By which columns rows are read. Both are expressions of SQL; `literal` encloses the text of a timestamp.

    `text` is the expression of that text.

    With both, the id decides among rows of the same timestamp.
    """

    timestamp: str | None = None
    id: str | None = None
    literal: str = "{}"
    text: str = "{}"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column in (self.timestamp, self.id) if column is not None)

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the expressions of what a place has."""
        return tuple(self.text.format(c) if c == self.timestamp else c for c in self.columns)

    def after(self, place: Place | None) -> str:
        """Return the condition of the rows after a place; None: of all that have one."""
        if place is None:
            return " AND ".join(f"{column} IS NOT NULL" for column in self.columns)
        return self._beyond(place, ">")

    def up_to(self, place: Place) -> str:
        """Return the condition of the rows up to a place, that place included."""
        return self._beyond(place, "<")

    def _beyond(self, place: Place, sign: str) -> str:
        equal = "=" if sign == "<" else ""
        number = place.get(INCREMENTING)
        if self.timestamp is None:
            return f"{self.id} {sign}{equal} {int(number or 0)}"
        time = self.literal.format(place[TIMESTAMP])
        if self.id is None:
            return f"{self.timestamp} {sign}{equal} {time}"
        if number is None:
            return f"{self.timestamp} {sign}{equal} {time} AND {self.id} IS NOT NULL"
        ties = f"{self.timestamp} = {time} AND {self.id} {sign}{equal} {int(number)}"
        return f"({self.timestamp} {sign} {time} AND {self.id} IS NOT NULL OR {ties})"


def place_fault(place: Place, *, has_time: bool, has_id: bool) -> str | None:
    """Return why an offset is no place in an order by these columns; None if it is one.

    With a timestamp alone, all rows that have it are before the place.
    """
    known = {name for name, has in ((TIMESTAMP, has_time), (INCREMENTING, has_id)) if has}
    if unknown := sorted(set(place) - known):
        return f"'{unknown[0]}' has no meaning in this mode"
    if has_time and not (isinstance(time := place.get(TIMESTAMP), str) and _TIME.fullmatch(time)):
        return f"'{TIMESTAMP}' must be text such as 2026-11-29 19:00:00.123456"
    number = place.get(INCREMENTING)
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if has_id and not is_whole and (number is not None or not has_time):
        return f"'{INCREMENTING}' must be a whole number"
    return None


_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?")
