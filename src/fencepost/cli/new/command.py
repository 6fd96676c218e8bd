"""`fencepost new`, with its options."""

from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.new.project import ConnectorKind, Project

app = typer.Typer(no_args_is_help=True, help="Write the project of a plug-in.")


@app.callback()
def new() -> None:
    """Write the project of a plug-in."""


@app.command()
def connector(
    name: Annotated[str, typer.Argument(help="The project, such as price-feed.", metavar="NAME")],
    kind: Annotated[ConnectorKind, typer.Option(help="What the connector does.")] = ConnectorKind.SOURCE,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where the project goes. Default: a directory of its name, here.")
    ] = None,
) -> None:
    """Write a small project with a connector that runs, its tests, and the entry point that workers find it by."""
    target = directory or Path(name)
    written = Project(name, kind).write(target)
    for file in written:
        typer.echo(str(file))
    typer.echo(f"\nNext: cd {target}, and do what its README.md says.")
