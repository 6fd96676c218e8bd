"""The ledger: for each source what was in the input, and what became of it, in its topic and behind that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from demo.emptied import EmptiedTopic
from demo.files import ParquetFiles
from demo.kill import Killed
from demo.source import Source
from demo.weather import DaysTable
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Verdict, judge

_COLUMNS = ("rows of\ninput", "records\ncommitted", "missing", "duplicated", "out of\norder", "not in\ninput")


@dataclass(frozen=True)
class Entry:
    """Where a source has gone, by a reader that came afterwards and, of a topic, by one that had watched.

    Of a topic that is empty afterwards there is only the one that had watched.
    """

    name: str
    verdicts: Mapping[str, Verdict]  # by how it was read, the first for the table
    is_topic: bool = True

    @property
    def is_clean(self) -> bool:
        return all(verdict.is_clean for verdict in self.verdicts.values())

    @property
    def figures(self) -> tuple[int, ...]:
        v = next(iter(self.verdicts.values()))
        return v.expected, v.observed, *map(len, (v.missing, v.duplicated, v.reordered, v.unexpected))


@dataclass(frozen=True)
class Ledger:
    """All sources, and how the time went."""

    entries: Sequence[Entry]
    killed: Sequence[Killed]
    moved_s: float
    down_s: float
    kills_of_files: int
    emptied: EmptiedTopic

    @property
    def is_clean(self) -> bool:
        return all(entry.is_clean for entry in self.entries) and not self.emptied.last

    @property
    def records(self) -> int:
        return sum(entry.figures[1] for entry in self.entries if entry.is_topic)

    def table(self) -> Table:
        """For the terminal."""
        table = Table(
            "source",
            title="The ledger: the input against topics (read_committed), Parquet files and a table",
            title_style="bold",
        )
        for column in _COLUMNS:
            table.add_column(column, justify="right")
        for entry in self.entries:
            style = "green" if entry.is_clean else "bold red"
            table.add_row(entry.name, *(f"{n:,}" for n in entry.figures), style=style)
        return table

    def lines(self) -> list[str]:
        """What stands below the table."""
        inside = sum(killed.is_inside_transaction for killed in self.killed)
        said = [
            f"{self.records:,} records in {self.moved_s:.1f} s from the first to the last, "
            f"{self.records / max(self.moved_s, 0.001):,.0f} records/s; {self.down_s:.1f} s of it without the worker",
            f"kills with SIGKILL: {len(self.killed)}, inside a transaction: {inside}; "
            f"while files were written: {self.kills_of_files}",
            f"the topic {self.emptied.topic} held {self.emptied.most:,} offsets at most, and {self.emptied.last:,} at "
            "the end: what is in files is deleted from it",
        ]
        for entry in self.entries:
            for how, verdict in entry.verdicts.items():
                if not verdict.is_clean:
                    said.append(f"{entry.name}, {how}: {verdict}")
        return said


def entry(source: Source, reader: CommittedReader, *, is_emptied: bool) -> Entry:
    """Judge a source whose topic `reader` has watched; where it is emptied, by that alone."""
    expected = source.expected()
    verdicts = {} if is_emptied else {"read afterwards": judge(expected, reader.read_all(), sighting=source.sighting)}
    verdicts["watched meanwhile"] = judge(expected, reader.catch_up(), sighting=source.sighting)
    return Entry(source.name, verdicts)


def entry_of_copy(copy: ParquetFiles | DaysTable) -> Entry:
    """Judge the files, or the table, that a source's topic was written to."""
    source = copy.source
    verdict = judge(source.expected(), copy.observations(), sighting=source.sighting)
    return Entry(copy.name, {"read afterwards": verdict}, is_topic=False)
