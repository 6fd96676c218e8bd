"""`fencepost topic`, with its options."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.completion import connector_names
from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import AlsoJson, Form, JsonForm, Output, Printer, TextOrJson
from fencepost.cli.topic.record import lines_of

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect

app = typer.Typer(help="Topics and their records, as the workers read them.", no_args_is_help=True)

_LATEST = "latest"
_MOST = 500


@app.command("list")
@on_worker
def list_topics(connect: "Connect", output: Form = Output.TABLE) -> None:
    """List the topics of the workers' Kafka. With roles this needs edit for all connectors."""
    from fencepost.cli.topic.reading import asked

    found = asked(connect, ("topics",), {})
    printer = Printer(output)
    if printer.is_table:
        printer.table(("TOPIC", "PARTITIONS"), [(one["name"], str(one["partitions"])) for one in found])
    else:
        printer.data(found)


@app.command(cls=AlsoJson)
@on_worker
def read(
    connect: "Connect",
    topic: Annotated[str, typer.Argument(help="A topic.", metavar="TOPIC")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=_MOST, help="How many records, at first.")] = 10,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="earliest: the first records; latest: the last ones; an offset; or a time: 2026-11-21T10:00:00Z.",
            metavar="earliest|latest|OFFSET|TIME",
        ),
    ] = _LATEST,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    partition: Annotated[int | None, typer.Option(min=0, help="Only records of this partition.")] = None,
    connector: Annotated[
        str | None,
        typer.Option(
            help="Read as this connector does, which reads or writes the topic: its converters, its Kafka, its rights.",
            autocompletion=connector_names,
        ),
    ] = None,
    output: JsonForm = TextOrJson.TEXT,
) -> None:
    """Show committed records of a topic: keys, values and headers.

    With --follow it waits for a topic that does not exist yet, and goes on while workers are started again.

    The worker reads them, so this needs no access to Kafka. With roles it needs operate for the --connector; without
    that option, edit for all connectors.
    """
    from fencepost.cli.topic.reading import records

    path = ("topics", topic, "records") if connector is None else ("connectors", connector, "topics", topic, "records")
    given: dict[str, object] = {"from": start} | ({} if partition is None else {"partition": partition})
    for record in records(connect, path, given, count, is_endless=follow):
        for line in [json.dumps(record, ensure_ascii=False)] if output is TextOrJson.JSON else lines_of(record):
            typer.echo(line)
