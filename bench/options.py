"""What the command line says, for every part."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.side import SIDES


@dataclass(frozen=True)
class Options:
    """`sizes` and `rounds` of a part are its own, smaller when `is_quick`, and can be set by hand."""

    is_quick: bool = False
    count: int = 0
    rounds: int = 0
    first: int = 0
    only: str = ""
    cases: Sequence[str] = ()
    keeps_files: bool = False
    ours: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        """Whether the result is less than what the page shows."""
        return bool(self.is_quick or self.count or self.only or self.ours)

    def size(self, full: int, quick: int) -> int:
        """How many records, requests or whatever a part counts."""
        return self.count or (quick if self.is_quick else full)

    def turns_of(self, full: int) -> range:
        """The turns to take; a later run that adds to the result of an earlier one lets the other side begin."""
        return range(self.first, self.first + (self.rounds or (1 if self.is_quick else full)))

    def sides(self, turn: int) -> list[str]:
        """The sides in the order of this turn: now one, now the other begins."""
        names = [side for side in SIDES if not self.only or side == self.only]
        return names if turn % 2 == 0 else names[::-1]

    @contextmanager
    def directory(self) -> Iterator[Path]:
        """A temporary directory for input, properties, logs."""
        directory = Path(tempfile.mkdtemp(prefix="fencepost-bench-"))
        try:
            yield directory
        finally:
            if self.keeps_files:
                say(f"kept: {directory}")
            else:
                shutil.rmtree(directory, ignore_errors=True)


def say(text: str) -> None:
    """For whoever waits."""
    print(text, flush=True)
