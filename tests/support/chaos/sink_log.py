"""What a sink's file says of a delivery: at least once, nothing committed too early, duplicates only behind a commit.

Beside the lines of `gated_sink` the test writes what it knows to be committed: `mark PARTITION OFFSET`.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.testing.verdict import Verdict, judge


@dataclass
class Run:
    """The records that one life got of a partition between `open` and `close`, as (offset, value)."""

    life: str
    floor: int
    records: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class SinkLog:
    """The lines of a file so far."""

    runs: dict[tuple[str, str, int], Run] = field(default_factory=dict)
    firsts: dict[tuple[int, int], None] = field(default_factory=dict)  # (partition, number): as if each came once
    marks: dict[int, int] = field(default_factory=dict)
    records: int = 0
    faults: list[str] = field(default_factory=list)

    def add(self, lines: Iterable[str]) -> "SinkLog":
        """Take further lines; returns itself."""
        for line in lines:
            what, *rest = line.split()
            {"open": self._opened, "put": self._put, "mark": self._marked}[what](*rest)
        return self

    def is_followed(self, life: str, partitions: int) -> bool:
        """Say whether other lives have written of every partition, beginning after its marks."""
        others = {
            place
            for (_, _, place), run in self.runs.items()
            if run.life != life and run.records and run.floor == self.marks.get(place, 0)
        }
        return others == set(range(partitions))

    def judged(self, ends: Mapping[int, int]) -> Verdict:
        """Return the one verdict, on what is left when each record's first line counts."""
        return judge({place: list(range(end)) for place, end in ends.items()}, self.firsts)

    def _opened(self, life: str, run: str, partition: str) -> None:
        self.runs[life, run, int(partition)] = Run(life, self.marks.get(int(partition), 0))

    def _put(self, life: str, run: str, partition: str, offset: str, value: str) -> None:
        place, at = int(partition), int(offset)
        own = self.runs[life, run, place]
        if own.records and at != own.records[-1][0] + 1:
            self.faults.append(f"{life}: offset {at} of {place} follows {own.records[-1][0]}")
        if not own.records and at < own.floor:
            self.faults.append(f"{life}: begins at {at} of {place}, though {own.floor} was committed")
        own.records.append((at, value))
        self.records += 1
        source, number = value.split("-")
        self.firsts[int(source), int(number)] = None

    def _marked(self, partition: str, offset: str) -> None:
        place, committed = int(partition), int(offset)
        if committed < self.marks.get(place, 0):
            self.faults.append(f"the group went back from {self.marks[place]} to {committed} of {place}")
        missing = [at for at in range(self.marks.get(place, 0), committed) if (place, at) not in self.firsts]
        if missing:
            self.faults.append(f"{committed} of {place} was committed, and {missing[:5]} was not flushed")
        self.marks[place] = committed


class SinkFile:
    """The file of a sink: read as far as it is written, and marked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = SinkLog()
        self._read = 0

    def read(self) -> SinkLog:
        """Return what the whole lines say that there are by now."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read += len(whole) + len(newline)
            self._log.add(whole.decode().splitlines())
        return self._log

    def mark(self, committed: Mapping[int, int]) -> None:
        """Write down what is committed at this moment, while nobody commits."""
        text = "".join(f"mark {place} {offset}\n" for place, offset in sorted(committed.items()))
        out = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(out, text.encode())
        os.close(out)
