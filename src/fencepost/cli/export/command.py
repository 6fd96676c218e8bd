"""`fencepost export`, with its options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.completion import connector_names
from fencepost.cli.on_worker import on_worker

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


@on_worker
def export(
    connect: "Connect",
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            help="Connectors; * stands for any characters. Default: all.",
            metavar="[PATTERN...]",
            autocompletion=connector_names,
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Write a file for each connector to this directory.", metavar="DIR"),
    ] = None,
    with_secrets: Annotated[
        bool,
        typer.Option(
            "--with-secrets", help="With --dir: also write the secrets that the workers show, as Kafka Connect does."
        ),
    ] = False,
) -> None:
    """Print configs, or write them to files, in the form that `apply` takes: a backup of a cluster.

    In place of a secret is ${fill:KEY}, with which `apply` keeps the value that the connector has. For another cluster,
    it has to be replaced by the secret or by a reference; the keys are listed.
    """
    from fencepost.cli.export.export import export_connectors

    export_connectors(connect, patterns or (), directory, with_secrets=with_secrets)
