"""`fencepost new`, with its options."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.new.project import TRANSFORM, ConnectorKind, Project

app = typer.Typer(no_args_is_help=True, help="Write the project of a plug-in.")


@app.callback()
def new() -> None:
    """Write the project of a plug-in."""


_Name = Annotated[str, typer.Argument(help="The project, such as price-feed.", metavar="NAME")]
_Directory = Annotated[
    Path | None, typer.Option("--dir", help="Where the project goes. Default: a directory of its name, here.")
]


@app.command()
def connector(
    name: _Name,
    kind: Annotated[ConnectorKind, typer.Option(help="What the connector does.")] = ConnectorKind.SOURCE,
    directory: _Directory = None,
) -> None:
    """Write a small project with a connector that runs, its tests, and the entry point that workers find it by."""
    _write(Project(name, kind), directory)


def _of_kind(kind: ConnectorKind) -> Callable[..., None]:
    def command(name: _Name, directory: _Directory = None) -> None:
        _write(Project(name, kind), directory)

    command.__doc__ = f"The same as `new connector --kind {kind}`."
    return command


for _kind in ConnectorKind:
    app.command(_kind.value, hidden=True)(_of_kind(_kind))


@app.command()
def transform(name: _Name, directory: _Directory = None) -> None:
    """Write a small project with a transform that works on columns, its tests, and its entry point."""
    _write(Project(name, TRANSFORM), directory)


def _write(project: Project, directory: Path | None) -> None:
    target = directory or Path(project.name)
    for file in project.write(target):
        typer.echo(str(file))
    typer.echo(f"\nNext: cd {target}, and do what its README.md says.")
