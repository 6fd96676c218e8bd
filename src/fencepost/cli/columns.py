"""Tables in a terminal."""

from collections.abc import Iterator, Sequence


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines of aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def counted(number: int, thing: str) -> str:
    """Return a number of things: 1 task, 2 tasks."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
