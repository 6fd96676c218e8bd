"""What commands print: tables for people, JSON or YAML for programs."""

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fencepost.cli.columns import aligned
from fencepost.telemetry.plain_line import printable

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


class Printer:
    """Prints in one form."""

    def __init__(self, output: Output) -> None:
        self._output = output

    @property
    def is_table(self) -> bool:
        """Return whether people read it."""
        return self._output is Output.TABLE

    def data(self, data: Any) -> None:
        """Print JSON or YAML."""
        if self._output is Output.YAML:
            import yaml

            typer.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)
        else:
            typer.echo(json.dumps(data, indent=2, ensure_ascii=False))

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
