"""`fencepost plan`, with its options."""

from pathlib import Path
from typing import Annotated

import typer


def plan(
    connector: Annotated[
        Path, typer.Argument(help="A connector's config in JSON, as for POST /connectors.", metavar="FILE")
    ],
    properties: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The workers' file: their Kafka, converters, providers and plugin.path."),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option(help="Kafka's bootstrap servers. Default: the file's, or 127.0.0.1:9092.")
    ] = None,
    plugin_path: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="A directory with plug-ins, as in plugin.path; repeatable. Default: the file's."
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="How many records at most.")] = 3,
) -> None:
    """Show what a connector would do with a few records, and which rights on topics are missing. Nothing is written.

    A source in Python is polled in this process, from its beginning; nothing is committed, and its commit() is not
    called. For a sink or a stream the newest records of its topics are read, in no group. Each record is shown as it
    was read, and as it is after transforms and converters. No task of a sink or a stream is started, nor a source in
    Java, which may create something: Debezium's create a replication slot.
    """
    from fencepost.cli.plan.planning import planned

    for line in planned(connector, properties, bootstrap, plugin_path or (), count):
        typer.echo(line)
