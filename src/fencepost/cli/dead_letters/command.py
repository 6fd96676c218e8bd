"""`fencepost dead-letters`, with its options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.completion import ConnectorName
from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import JsonForm, TextOrJson

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


@on_worker
def dead_letters(
    connect: "Connect",
    connector: ConnectorName,
    properties: Annotated[
        Path | None,
        typer.Option(help="A file with the settings of Kafka clients, such as the worker's own.", metavar="FILE"),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(help="Kafka's bootstrap servers. Default: the connector's, the file's, or the worker's."),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="The dead letter topic. Default: the config's.")] = None,
    limit: Annotated[int, typer.Option(help="How many dead letters to show; 0: all.", min=0)] = 20,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Show the oldest dead letters instead of the newest.")
    ] = False,
    output: JsonForm = TextOrJson.TEXT,
    resend: Annotated[
        bool,
        typer.Option(
            "--resend",
            help="Resend a sink's dead letters that were not resent yet, as they were read: to its "
            "errors.deadletterqueue.resend.topic.name, which only the sink reads; without that setting, to their "
            "original topics and partitions, where every consumer reads them again.",
        ),
    ] = False,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            help="With --resend: do not send this dead letter (as in orders-dead-0@4), or those that came from this "
            "topic, now or later. Repeatable.",
            metavar="LETTER|TOPIC",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before sending.")] = False,
) -> None:
    """Show the records that a connector could not process, or resend those of a sink, each once.

    A worker shows the newest, with the beginnings of long ones. All else, and --properties or --bootstrap, reads Kafka.
    """
    from fencepost.cli.dead_letters.connector import Where
    from fencepost.cli.dead_letters.send import send_again
    from fencepost.cli.dead_letters.show import show

    where = Where(connect, properties, bootstrap)
    if resend:
        send_again(connector, where, topic=topic, is_confirmed=yes, skipped=tuple(skip or ()))
    else:
        show(
            connector,
            where,
            topic=topic,
            limit=limit,
            is_from_beginning=from_beginning,
            as_json=output is TextOrJson.JSON,
        )
