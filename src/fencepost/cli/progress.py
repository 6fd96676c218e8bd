"""Progress of what takes long: a bar or a clock on a terminal, one line elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer


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
