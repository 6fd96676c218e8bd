"""`fencepost plugin`: its commands, with their options."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from fencepost.cli.output import Form, JsonForm, Output, Printer, TextOrJson
from fencepost.cli.places import plugin_directory
from fencepost.cli.plugin.reference import find_any, reference, text
from fencepost.plugin import PluginKind, PluginRegistry

app = typer.Typer(no_args_is_help=True, help="Install plug-ins, and show which there are and what each can be told.")

_Directories = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin-path",
        metavar="DIR",
        help="A directory with plug-ins, as in plugin.path; repeatable. Default: the file's, or that of `dev`.",
    ),
]
_Directory = Annotated[
    Path | None,
    typer.Option(
        "--plugin-path", metavar="DIR", help="The directory, one of plugin.path. Default: the file's, or that of `dev`."
    ),
]
_File = Annotated[
    Path | None,
    typer.Option(help="A worker's file. The directory is the first one in its plugin.path.", metavar="FILE"),
]
_WholeFile = Annotated[
    Path | None,
    typer.Option("--properties", help="A worker's file: all that is in its plugin.path.", metavar="FILE"),
]


@app.command()
def install(
    plugin: Annotated[
        str,
        typer.Argument(
            help="GROUP:ARTIFACT:VERSION in a Maven repository, OWNER/NAME:VERSION on Confluent's Hub, or the path or "
            "URL of an archive: .zip, .tar.gz, .jar. Without :VERSION, it is the newest release.",
            metavar="PLUGIN",
        ),
    ],
    plugin_path: _Directory = None,
    properties: _File = None,
    repository: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="A Maven repository that is asked instead of Maven Central, such as a mirror."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="The name of its own directory. Default: the artifact's, without a version, so that another version "
            "replaces it; with different names, versions are kept side by side.",
        ),
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="The SHA-256 that the archive must have. One at http:// needs it."),
    ] = None,
) -> None:
    """Install a Java plug-in, with the jars that it needs, into a directory of plugin.path. Restart workers to use it.

    What Kafka Connect provides is left out. `dev` finds what is in the default directory.
    """
    from fencepost.cli.plugin.install import install_plugin

    install_plugin(plugin, plugin_path, properties, name=name, sha256=sha256, repository=repository)


@app.command()
def search(
    word: Annotated[str, typer.Argument(help="Part of a name, such as postgres or s3.", metavar="WORD")],
    output: Form = Output.TABLE,
) -> None:
    """Find Java connectors among those that configs name most, and print what installs each. Asks no network."""
    from fencepost.builtin.java.install.known import search as known

    printer, found = Printer(output), list(known(word))
    if not printer.is_table:
        printer.data([{"class": name, "plugin": plugin.place} for name, plugin in found])
        return
    if found:
        printer.table(("CLASS", "INSTALL WITH"), [(name, plugin.plain_command) for name, plugin in found])
    else:
        typer.echo(
            f"Nothing that is known here has {word} in its name: search on central.sonatype.com and "
            "www.confluent.io/hub, and install it by GROUP:ARTIFACT or OWNER/NAME"
        )


@app.command()
def remove(
    plugin: Annotated[
        str,
        typer.Argument(help="The name of its directory, GROUP:ARTIFACT, or what was installed.", metavar="PLUGIN"),
    ],
    plugin_path: _Directory = None,
    properties: _File = None,
) -> None:
    """Remove a plug-in that was installed by `install`."""
    from fencepost.cli.plugin.install import remove_plugin

    remove_plugin(plugin, plugin_path, properties)


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="The class, as a config names it.", metavar="NAME")],
    plugin_path: _Directories = None,
    properties: _WholeFile = None,
    kind: Annotated[PluginKind | None, typer.Option(help="What it is, if several kinds have the name.")] = None,
    output: JsonForm = TextOrJson.TEXT,
) -> None:
    """Print the reference of a plug-in: its settings with types, defaults and meanings."""
    found = find_any(_registry(plugin_path, properties), name, kind)
    if output is TextOrJson.JSON:
        typer.echo(orjson.dumps(reference(found), option=orjson.OPT_INDENT_2).decode())
        return
    for line in text(found):
        typer.echo(line)


@app.command("list")
def list_all(
    plugin_path: _Directories = None,
    properties: _WholeFile = None,
    kind: Annotated[PluginKind | None, typer.Option(help="Only plug-ins of this kind.")] = None,
    url: Annotated[str | None, typer.Option(help="List those of the worker with this REST API instead.")] = None,
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="List those of this cluster's workers instead.")
    ] = None,
    output: Form = Output.TABLE,
) -> None:
    """List the plug-ins of this environment and of directories, and what could not be loaded; or those of a worker.

    The last column says which package a plug-in is from, from where it was installed, or in which directory it is.
    """
    from fencepost.cli.plugin.listing import in_short, of_worker
    from fencepost.plugin.origins import Origins

    printer = Printer(output)
    if url or context:
        found = of_worker(url, context, kind)
        if printer.is_table:
            printer.table(("KIND", "CLASS", "VERSION"), [(o["type"], o["class"], o["version"] or "") for o in found])
        else:
            printer.data(found)
        return
    registry = _registry(plugin_path, properties)
    origins = Origins(registry)
    kinds = PluginKind if kind is None else (kind,)
    rows = [
        (each.value, name, origins.version(each, name), origins.of(each, name))
        for each in kinds
        for name in sorted({n for view in registry.views() for n in view.names(each)})
    ]
    if printer.is_table:
        printer.table(("KIND", "CLASS", "VERSION", "FROM"), [(*row[:3], in_short(row[3])) for row in rows])
    else:
        keys = ("type", "class", "version", "from")
        printer.data([dict(zip(keys, (*row[:3], ", ".join(row[3])), strict=True)) for row in rows])
    for failure in (*registry.failures(), *origins.changes()):
        typer.echo(failure, err=True)


def _registry(plugin_path: list[Path] | None, properties: Path | None) -> PluginRegistry:
    if properties is not None and not plugin_path:
        from fencepost.cli.client import plugin_path_of

        return PluginRegistry(plugin_path_of(properties))
    own = plugin_directory()
    return PluginRegistry([str(directory) for directory in plugin_path or ([own] if own.is_dir() else [])])
