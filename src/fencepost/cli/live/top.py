"""`fencepost top`: what all tasks do, as a table that is renewed."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.live.rows import HEADINGS, Order, Task, cells, ordered, tasks_of
from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import Output, Printer
from fencepost.cluster.glance import RETRYING, STANDS_STILL
from fencepost.telemetry.plain_line import printable

if TYPE_CHECKING:
    from rich.table import Table

    from fencepost.cli.connect import Connect

_EXPANSIONS = ("status", "figures")
_STYLES = {
    "FAILED": "bold red",
    STANDS_STILL: "bold red reverse",
    RETRYING: "yellow",
    "UNASSIGNED": "magenta",
    "PAUSED": "yellow",
}


@on_worker
def top(
    connect: "Connect",
    pattern: Annotated[str, typer.Argument(help="Connectors by name; * stands for any characters.")] = "*",
    sort: Annotated[Order, typer.Option("--sort", "-s", help="What comes first.")] = Order.STATE,
    every: Annotated[float, typer.Option(min=1.0, max=3600.0, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look twice, print one table and end.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="The form; JSON and YAML are for --once.")] = (
        Output.TABLE
    ),
) -> None:
    """Show what all tasks do: rate, lag, age of the last record, open transactions, errors, memory of slots.

    The table is renewed until Ctrl-C, with one request for each look. Tasks that have failed or stand still come first.
    Workers of Kafka Connect have no figures: of their tasks the states are shown.
    """
    before, before_s = _look(connect), time.monotonic()
    if once or output is not Output.TABLE or not sys.stdout.isatty():
        if any("figures" in one for one in before.values()):
            time.sleep(min(every, 1.0))
        tasks = ordered(_again(connect, before, before_s, pattern)[0], sort)
        printer = Printer(output)
        if printer.is_table:
            printer.table(HEADINGS, [cells(task) for task in tasks])
        else:
            printer.data([task.as_data() for task in tasks])
        return
    _watch(connect, before, pattern, sort, every)


def _watch(connect: "Connect", before: Mapping[str, Any], pattern: str, sort: Order, every_s: float) -> None:
    from rich.live import Live

    before_s = time.monotonic()
    with Live(_table([], 0), screen=True, auto_refresh=False) as live:
        tasks = tasks_of(before, {}, 0.0, time.time() * 1000, pattern)
        while True:
            rows = ordered(tasks, sort)
            room = max(1, live.console.size.height - 3)
            live.update(_table(rows[:room], len(rows) - room), refresh=True)
            time.sleep(every_s)
            tasks, before = _again(connect, before, before_s, pattern)
            before_s = time.monotonic()


def _look(connect: "Connect") -> Mapping[str, Any]:
    answer: Mapping[str, Any] = connect.get("connectors", expand=_EXPANSIONS)
    return answer


def _again(
    connect: "Connect", before: Mapping[str, Any], before_s: float, pattern: str
) -> tuple[list[Task], Mapping[str, Any]]:
    answer = _look(connect)
    return tasks_of(answer, before, time.monotonic() - before_s, time.time() * 1000, pattern), answer


def _table(tasks: Sequence[Task], left: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    caption = f"{left} more: choose with a pattern or --sort" if left > 0 else None
    table = Table(*HEADINGS, box=None, pad_edge=False, header_style="bold", caption=caption)
    for task in tasks:
        style = _STYLES.get(task.word, "")
        table.add_row(*(Text(printable(cell), no_wrap=True) for cell in cells(task)), style=style)
    return table
