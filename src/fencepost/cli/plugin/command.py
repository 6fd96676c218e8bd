"""`fencepost plugin`: its commands, with their options."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer

from fencepost.cli.columns import aligned
from fencepost.cli.plugin.reference import find_any, reference, text
from fencepost.plugin import PluginKind, PluginRegistry

app = typer.Typer(no_args_is_help=True, help="Show which plug-ins there are, and what each can be told.")

_Directories = Annotated[
    list[Path] | None,
    typer.Option("--plugin-path", metavar="DIR", help="A directory with plug-ins, as in plugin.path; repeatable."),
]


class Output(StrEnum):
    """The form of what is printed."""

    TEXT = "text"
    JSON = "json"


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="The class, as a config names it.", metavar="NAME")],
    plugin_path: _Directories = None,
    kind: Annotated[PluginKind | None, typer.Option(help="What it is, if several kinds have the name.")] = None,
    output: Annotated[Output, typer.Option(help="text, or json for programs.")] = Output.TEXT,
) -> None:
    """Print the reference of a plug-in: its settings with types, defaults and meanings."""
    found = find_any(_registry(plugin_path), name, kind)
    if output is Output.JSON:
        typer.echo(orjson.dumps(reference(found), option=orjson.OPT_INDENT_2).decode())
        return
    for line in text(found):
        typer.echo(line)


@app.command("list")
def list_all(
    plugin_path: _Directories = None,
    kind: Annotated[PluginKind | None, typer.Option(help="Only plug-ins of this kind.")] = None,
) -> None:
    """List the plug-ins of this environment and of directories, and what could not be loaded."""
    registry = _registry(plugin_path)
    kinds = PluginKind if kind is None else (kind,)
    rows = [
        (each.value, name)
        for each in kinds
        for name in sorted({n for view in registry.views() for n in view.names(each)})
    ]
    for line in aligned([("KIND", "CLASS"), *rows]):
        typer.echo(line)
    for failure in registry.failures():
        typer.echo(failure, err=True)


def _registry(plugin_path: list[Path] | None) -> PluginRegistry:
    return PluginRegistry([str(directory) for directory in plugin_path or ()])
