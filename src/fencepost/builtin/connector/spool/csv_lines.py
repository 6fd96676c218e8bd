"""Questions about all lines of a CSV file, which Spark answers."""

from collections.abc import Iterable, Iterator
from typing import Any

from fencepost.builtin.connector.spool.csv_layout import QuoteRule, ends_in_quotes


def has_open_line(session: Any, path: str, quote: str) -> bool:
    """Let Spark find out whether a line of a file has an odd number of quotes."""
    lines = _lines(session, path)
    return not lines.where(f"(length(value) - length(replace(value, char({ord(quote)}), ''))) % 2 = 1").isEmpty()


def ends_in_open_quotes(session: Any, path: str, rule: QuoteRule) -> bool:
    """Let an executor find out, line by line in their order, whether the last quoted value of a file is open."""

    def found(rows: Iterable[Any]) -> Iterator[bool]:
        yield ends_in_quotes((row[0].encode(errors="replace") for row in rows), rule)

    return bool(_lines(session, path).coalesce(1).rdd.mapPartitions(found).first())


def _lines(session: Any, path: str) -> Any:
    """Return the lines of a file as a DataFrame."""
    return session.read.option("__globPaths__", "false").text(path)
