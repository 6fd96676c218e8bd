"""`fencepost restart`."""

from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.completion import connector_names
from fencepost.cli.connector.each import for_each
from fencepost.cli.on_worker import on_worker
from fencepost.config import ConfigError

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect

_FAILED = "FAILED"


@on_worker
def restart(
    connect: "Connect",
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="The connectors' names. With --failed, the default is all that have failed.",
            metavar="[CONNECTOR...]",
            autocompletion=connector_names,
        ),
    ] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Also restart the tasks.")] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Restart only what has failed: the connector, or some of its tasks.")
    ] = False,
) -> None:
    """Restart connectors, with their tasks, or only what has failed."""
    from fencepost.cli.connector.view import all_connectors

    if not names and not failed:
        raise ConfigError("Name the connectors to restart, or use --failed for all that have failed")
    chosen = names or [view.name for view in all_connectors(connect) if view.is_in(_FAILED)]
    if not chosen:
        typer.echo("Nothing has failed")
    parameters = {"includeTasks": str(tasks or failed).lower(), "onlyFailed": str(failed).lower()}
    for_each(chosen, "restarted", lambda name: connect.post("connectors", name, "restart", **parameters))
