"""Does the same with several connectors, and says what was done."""

from collections.abc import Callable, Iterable

import typer

from fencepost.api.errors import ConnectError
from fencepost.telemetry.plain_line import printable


def for_each(names: Iterable[str], done: str, act: Callable[[str], object]) -> None:
    """Do it with each; what fails is reported and does not keep others from being tried. Exits with 1 then.

    Args:
        done: A word for what was done, such as `paused`.
        act: Raises RefusedError, or another ConnectError; if nobody answers, the ConfigError ends the command.
    """
    is_failed = False
    for name in dict.fromkeys(names):
        try:
            act(name)
        except ConnectError as error:
            is_failed = True
            typer.echo(printable(f"{name}: not {done}: {error}"), err=True)
        else:
            typer.echo(printable(f"{name}: {done}"))
    if is_failed:
        raise typer.Exit(1)
