"""What commands print: tables and progress for people, JSON or YAML for programs; and how their process ends."""

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from fencepost.telemetry.plain_line import printable


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines of aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def counted(number: int, thing: str) -> str:
    """Return a number of things: 1 task, 2 tasks."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


_UNSAFE = re.compile(r"[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")
"""What JSON does not escape by itself, and `printable` does; all of it is within strings."""

_COLOURS = {
    "RUNNING": "green",
    "FAILED": "bold red",
    "STANDS": "bold red",
    "RETRYING": "yellow",
    "PAUSED": "yellow",
    "STOPPED": "yellow",
    "UNASSIGNED": "magenta",
}


class Output(StrEnum):
    """The form of what is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class TextOrJson(StrEnum):
    """The form of what is no table: text for people, or JSON for programs."""

    TEXT = "text"
    JSON = "json"


JsonForm = Annotated[TextOrJson, typer.Option("--output", "-o", help="text, or json for programs.")]
"""The option of commands that print in both."""


class AlsoJson(TyperCommand):
    """A command that takes `--json`, too, for `--output json`: its former name."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, ["--output=json" if each == "--json" else each for each in args])


Form = Annotated[Output, typer.Option("--output", "-o", help="The form.")]
"""The option of commands that print in each of them."""


def print_json(data: Any, indent: int | None = None) -> None:
    """Print JSON without control characters: names and records come from others, and could write to the terminal."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    typer.echo(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


class Printer:
    """Prints in one form."""

    def __init__(self, output: Output) -> None:
        self._output = output

    @property
    def is_table(self) -> bool:
        """Return whether people read it."""
        return self._output is Output.TABLE

    def listing(self, data: Any, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a list: as a table, or its data."""
        if self.is_table:
            self.table(headings, rows)
        else:
            self.data(data)

    def data(self, data: Any) -> None:
        """Print JSON or YAML."""
        if self._output is Output.YAML:
            import yaml

            typer.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)
        else:
            print_json(data, indent=2)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table; on a terminal with colours, and in lines that fit."""
        cells = [tuple(printable(cell) for cell in row) for row in rows]
        if not sys.stdout.isatty():
            for line in aligned([tuple(headings), *cells]):
                typer.echo(line)
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*headings, box=None, pad_edge=False, header_style="bold")
        for row in cells:
            table.add_row(*(Text(cell, style=_COLOURS.get(cell.partition(" ")[0], "")) for cell in row))
        Console().print(table)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show that something goes on whose end is not known, and for how long already."""
    if not sys.stderr.isatty():
        typer.echo(f"{text} …", err=True)
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(text, total=None)
        yield


@contextmanager
def counting(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how much of a total is done; yields what is called with each further amount."""
    if not sys.stderr.isatty():
        typer.echo(f"{text} …", err=True)
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(text, total=total)
        yield lambda amount: bar.update(task, advance=amount)


def end_process(code: int) -> NoReturn:
    """Flush all output and end this process, without shutting the interpreter down.

    Threads of Kafka's client that still run log through Python, and crash if parts of the interpreter are gone.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
