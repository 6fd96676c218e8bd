"""`fencepost get`: the connectors of a cluster."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.completion import connector_names
from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import Form, Output, Printer

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect
    from fencepost.cli.connector.view import ConnectorView


@on_worker
def get(
    connect: "Connect",
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            help="Only connectors of these names; * stands for any characters, ? for one.",
            metavar="[PATTERN...]",
            autocompletion=connector_names,
        ),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only connectors that are in this state, or have a task that is; repeatable."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--type", help="Only connectors of this type: source, sink, stream or mirror.")
    ] = None,
    output: Form = Output.TABLE,
) -> None:
    """List the connectors of a cluster, with their states."""
    from fencepost.cli.connector.view import all_connectors

    wanted = {each.upper() for each in state or ()}
    found = [
        each
        for each in all_connectors(connect, patterns or ())
        if (not wanted or any(map(each.is_in, wanted))) and kind in (None, each.kind, each.type)
    ]
    printer = Printer(output)
    if printer.is_table:
        printer.table(("NAME", "TYPE", "STATE", "TASKS", "DELIVERY", "WORKER", "CLASS"), [_row(each) for each in found])
    else:
        printer.data([_as_data(each) for each in found])


def _row(view: "ConnectorView") -> tuple[str, ...]:
    states = view.task_states
    tasks = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return view.name, view.kind, view.word, tasks or "none", view.delivery[0], view.worker_id, view.short_class


def _as_data(view: "ConnectorView") -> dict[str, Any]:
    return {
        "name": view.name,
        "type": view.type,
        "kind": view.kind,
        "state": view.word,
        "tasks": dict(sorted(view.task_states.items())),
        "delivery": view.delivery[0],
        "worker_id": view.worker_id,
        "class": view.config.get("connector.class"),
    }
