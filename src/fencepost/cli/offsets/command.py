"""`fencepost offsets`: its commands, with their options."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.completion import ConnectorName
from fencepost.cli.on_worker import Yes, on_worker
from fencepost.cli.output import Form, Output, Printer

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect

app = typer.Typer(no_args_is_help=True, help="Show, move and reset the offsets of connectors.")

_KeepStopped = Annotated[bool, typer.Option("--keep-stopped", help="Do not resume the connector afterwards.")]
_Preview = Annotated[bool, typer.Option("--preview", help="Show what would change, and change nothing.")]


@app.command()
@on_worker
def show(
    connect: "Connect",
    connector: ConnectorName,
    output: Form = Output.TABLE,
) -> None:
    """Show the offset of every partition. JSON has the form that `move --file` takes."""
    from fencepost.cli.connector.view import existing_connector

    existing_connector(connect, connector)
    found, printer = connect.get("connectors", connector, "offsets"), Printer(output)
    if printer.is_table:
        rows = [(json.dumps(one["partition"]), json.dumps(one["offset"])) for one in found["offsets"]]
        printer.table(("PARTITION", "OFFSET"), rows)
    else:
        printer.data(found)


@app.command()
@on_worker
def move(
    connect: "Connect",
    connector: ConnectorName,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            help='TOPIC:PARTITION=OFFSET for a sink (* for all partitions; "none" deletes the offset), or JSON, '
            '{"partition": {...}, "offset": {...}}, for a source.',
            metavar="[CHANGE...]",
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="A file of JSON with the changes, as `show --output json` prints offsets.")
    ] = None,
    preview: _Preview = False,
    keep_stopped: _KeepStopped = False,
    yes: Yes = False,
) -> None:
    """Change offsets, after the changes were shown. The connector is stopped for that, and resumed afterwards."""
    from fencepost.cli.offsets.change import parse_changes
    from fencepost.cli.offsets.move import OffsetMove, Options

    moving = OffsetMove(connect, connector, Options(yes, keep_stopped, preview))
    moving.alter(parse_changes(changes or (), file, moving.present))


@app.command()
@on_worker
def reset(
    connect: "Connect",
    connector: ConnectorName,
    preview: _Preview = False,
    keep_stopped: _KeepStopped = False,
    yes: Yes = False,
) -> None:
    """Delete all offsets, after they were shown. The connector begins anew, after it was stopped for that."""
    from fencepost.cli.offsets.move import OffsetMove, Options

    OffsetMove(connect, connector, Options(yes, keep_stopped, preview)).reset()
