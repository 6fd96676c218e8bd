"""The ledger: for each source what was in the files, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from demo.kill import Killed
from demo.source import Source
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Verdict, judge

_COLUMNS = ("rows in\nthe files", "records\ncommitted", "missing", "duplicated", "out of\norder", "in no\nfile")


@dataclass(frozen=True)
class Entry:
    """A source, by the reader that came afterwards and by the one that had watched."""

    source: Source
    afterwards: Verdict
    watched: Verdict

    @property
    def is_clean(self) -> bool:
        return self.afterwards.is_clean and self.watched.is_clean

    @property
    def figures(self) -> tuple[int, ...]:
        v = self.afterwards
        return v.expected, v.observed, *map(len, (v.missing, v.duplicated, v.reordered, v.unexpected))


@dataclass(frozen=True)
class Ledger:
    """All sources, and how the time went."""

    entries: Sequence[Entry]
    killed: Sequence[Killed]
    moved_s: float
    down_s: float

    @property
    def is_clean(self) -> bool:
        return all(entry.is_clean for entry in self.entries)

    @property
    def records(self) -> int:
        return sum(entry.afterwards.observed for entry in self.entries)

    def table(self) -> Table:
        """For the terminal."""
        table = Table("source", title="The ledger: input files against the topics, read_committed", title_style="bold")
        for column in _COLUMNS:
            table.add_column(column, justify="right")
        for entry in self.entries:
            style = "green" if entry.is_clean else "bold red"
            table.add_row(entry.source.name, *(f"{n:,}" for n in entry.figures), style=style)
        return table

    def lines(self) -> list[str]:
        """What stands below the table."""
        inside = sum(killed.is_inside_transaction for killed in self.killed)
        said = [
            f"{self.records:,} records in {self.moved_s:.1f} s from the first to the last, "
            f"{self.records / max(self.moved_s, 0.001):,.0f} records/s; {self.down_s:.1f} s of it without the worker",
            f"kills with SIGKILL: {len(self.killed)}, inside a transaction: {inside}",
        ]
        for entry in self.entries:
            for how, verdict in (("read afterwards", entry.afterwards), ("watched meanwhile", entry.watched)):
                if not verdict.is_clean:
                    said.append(f"{entry.source.name}, {how}: {verdict}")
        return said


def entry(source: Source, reader: CommittedReader) -> Entry:
    """Judge a source whose topic `reader` has watched."""
    expected = source.expected()
    watched = judge(expected, reader.catch_up(), sighting=source.sighting)
    return Entry(source, judge(expected, reader.read_all(), sighting=source.sighting), watched)
