"""`fencepost delete`."""

from typing import TYPE_CHECKING

import typer

from fencepost.cli.columns import counted
from fencepost.cli.completion import ConnectorNames
from fencepost.cli.connector.each import for_each
from fencepost.cli.on_worker import Yes, confirm, on_worker
from fencepost.telemetry.plain_line import printable

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


@on_worker
def delete(connect: "Connect", names: ConnectorNames, yes: Yes = False) -> None:
    """Delete connectors, after they were shown. Their offsets stay: a connector of the same name continues there."""
    from fencepost.cli.connector.view import existing_connector
    from fencepost.cluster.remains import remains_of

    for view in [existing_connector(connect, name) for name in dict.fromkeys(names)]:
        typer.echo(printable(f"{view.name}: a {view.kind}, {view.word}, {counted(len(view.tasks), 'task')}"), err=True)
        for line in remains_of(view.config):
            typer.echo(printable(f"  {line}"), err=True)
    if not yes:
        confirm(connect, f"delete {'it' if len(set(names)) == 1 else 'them'}?")
    for_each(names, "deleted", lambda name: connect.delete("connectors", name))
