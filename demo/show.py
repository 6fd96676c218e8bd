"""What the demo shows while it runs: bars at a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

_PLAIN_EVERY_S = 3.0
_STANDING_EVERY_S = 15.0


class Show:
    """Progress of all that moves, and lines of text between. A context manager."""

    def __init__(self, console: Console, totals: Mapping[str, int]) -> None:
        """`totals`: how many records there will be, by name."""
        self._console = console
        self._began = time.monotonic()
        self._said_at = self._began
        self._said: dict[str, int] = {}
        self._totals = dict(totals)
        self._bars = Progress(
            TextColumn("{task.description:13}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._ids = {name: self._bars.add_task(name, total=total) for name, total in self._totals.items()}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def say(self, text: str, style: str = "") -> None:
        """Print a line, above the bars where there are any."""
        elapsed_s = time.monotonic() - self._began
        self._console.print(
            Text(f"{elapsed_s:5.1f} s  {text}", style), soft_wrap=True
        )  # a style of print is the bars' too

    def update(self, visible: Mapping[str, int]) -> None:
        """Tell how many records of each a reader can see."""
        for name, count in visible.items():
            self._bars.update(self._ids[name], completed=count)
        now = time.monotonic()
        wait_s = _STANDING_EVERY_S if visible == self._said else _PLAIN_EVERY_S
        if not self._console.is_terminal and now - self._said_at >= wait_s:
            self._said_at, self._said = now, dict(visible)
            self.say(", ".join(f"{name} {count:,} of {self._totals[name]:,}" for name, count in visible.items()))
