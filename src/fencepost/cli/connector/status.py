"""`fencepost status`: the states of connectors and tasks, each with the reason of a failure."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.completion import connector_names
from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import Form, Output, Printer
from fencepost.telemetry.plain_line import printable

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect
    from fencepost.cli.connector.view import ConnectorView


@on_worker
def status(
    connect: "Connect",
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Connectors. Default: all.", metavar="[CONNECTOR...]", autocompletion=connector_names),
    ] = None,
    output: Form = Output.TABLE,
) -> None:
    """Show the states of connectors and their tasks, a line each, with the reason if one has failed or tries again.

    Connectors that are not exactly once follow, each with the reason and the line to add.

    JSON and YAML have the statuses as Kafka Connect answers them, with complete traces.
    """
    from fencepost.cli.connector.view import all_connectors, existing_connector
    from fencepost.cli.masking import Masking
    from fencepost.telemetry.traces import reason_in

    views = [existing_connector(connect, name) for name in names] if names else all_connectors(connect)
    masking = Masking()
    for view in views:
        if any("trace" in each for each in (view.status["connector"], *view.tasks)):
            masking.learn(connect, view.config)
    printer = Printer(output)
    if not printer.is_table:
        printer.data([masked_status(view, masking) for view in views])
        return
    rows = []
    for view in views:
        words = [view.state, *view.task_words]
        for word, task in zip(words, (view.status["connector"], *view.tasks), strict=True):
            number = str(task["id"]) if "id" in task else ""
            reason = reason_in(masking.text(str(task.get("trace") or "")))
            rows.append((view.name, number, word, task.get("worker_id", ""), reason))
    printer.table(("CONNECTOR", "TASK", "STATE", "WORKER", "REASON"), rows)
    for line in _not_exactly_once(views):
        typer.echo(printable(line))


def _not_exactly_once(views: Sequence["ConnectorView"]) -> Iterator[str]:
    """Say which connectors are not exactly once, and why: those with the same reason in one line."""
    names: dict[str, list[str]] = {}
    for view in views:
        word, why = view.delivery
        if why:
            names.setdefault(f"{word}: {why}", []).append(view.name)
    if names:
        yield "\nNot exactly once, or not known to be:"
    for text, found in names.items():
        yield f"  {', '.join(found)}: {text}"


def masked_status(view: Any, masking: Any) -> dict[str, Any]:
    """Return the status of a connector as REST has it, without secrets."""

    def shown(one: Any) -> dict[str, Any]:
        return {key: masking.text(value) if key == "trace" and value else value for key, value in one.items()}

    return {
        **view.status,
        "connector": shown(view.status["connector"]),
        "tasks": [shown(task) for task in view.tasks],
    }
