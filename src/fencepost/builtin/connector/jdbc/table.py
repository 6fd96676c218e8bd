"""A table, or a query, as planning asks it: the next ranges of rows, each of which is complete."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.builtin.connector.jdbc.order import INCREMENTING, TIMESTAMP, Order, Place

Ask = Callable[[str], Sequence[tuple[Any, ...]]]
"""Returns the rows of a query: timestamps as text, ids as whole numbers."""


@dataclass(frozen=True)
class Table:
    """`relation`: what follows FROM. `has_limit`: LIMIT and OFFSET instead of the standard's FETCH."""

    relation: str
    order: Order
    ask: Ask
    has_limit: bool = True

    def newest_id(self) -> int | None:
        """Return the largest visible id; None without rows."""
        found = self.ask(f"SELECT MAX({self.order.id}) FROM {self.relation}")[0][0]
        return None if found is None else int(found)

    def end_of_sequence(self, after: int, most: int) -> int:
        """Return the last id of the unbroken sequence that follows an id, of `most` ids at most.

        All of its rows are visible. Ids are unique, so no other row can appear among them.
        """
        id_, beyond = self.order.id, self.condition({INCREMENTING: after}, {INCREMENTING: after + most})
        first = self.ask(f"SELECT MIN({id_}) FROM {self.relation} WHERE {beyond}")[0][0]
        if first is None or int(first) != after + 1:
            return after
        pairs = f"SELECT {id_} AS one, LEAD({id_}) OVER (ORDER BY {id_}) AS other FROM {self.relation} WHERE {beyond}"
        last = self.ask(f"SELECT MIN(one) FROM ({pairs}) pairs WHERE other IS NULL OR other > one + 1")[0][0]
        return int(last)

    def ranges(self, after: Place | None, complete: Place, most_rows: int) -> Iterator[tuple[Place | None, Place]]:
        """Yield ranges (from, to] of about `most_rows` rows. All rows that have the last one's place are in a range."""
        while (end := self._end(after, complete, most_rows)) is not None:
            yield after, end
            after = end

    def condition(self, after: Place | None, end: Place) -> str:
        """Return the condition of the rows of a range."""
        return f"{self.order.after(after)} AND {self.order.up_to(end)}"

    def _end(self, after: Place | None, complete: Place, most_rows: int) -> Place | None:
        columns = self.order.columns
        chosen = f"SELECT {', '.join(self.order.shown)} FROM {self.relation} WHERE {self.condition(after, complete)}"
        descending = ", ".join(f"{column} DESC" for column in columns)
        full = self.ask(f"{chosen} ORDER BY {', '.join(columns)} {self._one_row(most_rows - 1)}")
        found = full or self.ask(f"{chosen} ORDER BY {descending} {self._one_row(0)}")
        return self._place(found[0]) if found else None

    def _one_row(self, skipped: int) -> str:
        if self.has_limit:
            return f"LIMIT 1 OFFSET {skipped}"
        return f"OFFSET {skipped} ROWS FETCH NEXT 1 ROWS ONLY"

    def _place(self, row: tuple[Any, ...]) -> Place:
        place: dict[str, Any] = {} if self.order.timestamp is None else {TIMESTAMP: str(row[0])}
        return place if self.order.id is None else {**place, INCREMENTING: int(row[-1])}
