"""`fencepost acls`, with its options."""

from pathlib import Path
from typing import Annotated

import typer


def acls(
    properties: Annotated[
        Path, typer.Argument(help="Kafka Connect's distributed worker file, or a MirrorMaker 2 file.", metavar="WORKER")
    ],
    connector: Annotated[
        Path | None,
        typer.Argument(help="A connector's config in JSON, as for POST /connectors.", metavar="[CONNECTOR]"),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic that the connector writes to, or mirrors; repeatable. Default: from its config."),
    ] = None,
    principal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=User:NAME",
            help="The principal of a role (worker, producer, consumer, admin; for a mirror source, target) that is "
            "not in the settings; with a MirrorMaker 2 file, also of a cluster (its alias); repeatable.",
        ),
    ] = None,
    commands: Annotated[bool, typer.Option("--commands", help="Print kafka-acls commands instead of a table.")] = False,
    prefixed: Annotated[
        bool, typer.Option("--prefixed", help="Grant the transactional ids of all tasks at once, by their prefix.")
    ] = False,
) -> None:
    """Print exactly the rights in Kafka that a worker and a connector need."""
    from fencepost.cli.acls.listing import print_acls

    print_acls(
        properties,
        connector,
        topics=topic or [],
        principals=principal or [],
        as_commands=commands,
        is_prefixed=prefixed,
    )
