"""Commands that ask no worker, with their options."""

import difflib
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fencepost.cli.output import Form, JsonForm, Output, Printer, TextOrJson, print_json
from fencepost.guide import NO_PAGES, pages
from fencepost.plugin import PluginKind, PluginRegistry

# What REST calls kinds, where that is something else.
_TYPES = {PluginKind.CONNECTOR: ("source", "sink"), PluginKind.TRANSFORM: ("transformation",)}

_MOST_CHARACTERS = 56


def of_worker(url: str | None, context: str | None, kind: PluginKind | None) -> list[dict[str, Any]]:
    """Return the plug-ins of a worker, or those of one kind: `class`, `type`, `version`. Raises as `Connect` does."""
    from fencepost.cli.connect import Connect, access

    with Connect(access(url, context)) as connect:
        found: list[dict[str, Any]] = connect.get("connector-plugins", connectorsOnly="false")
    types = None if kind is None else _TYPES.get(kind, (kind.value,))
    return [
        {"class": one["class"], "type": one["type"], "version": one.get("version")}
        for one in found
        if types is None or one["type"] in types
    ]


def in_short(origins: Sequence[str]) -> str:
    """Return where a class is from, in a cell of a table: of several places the first, of a path its end."""
    first = origins[0] if len(origins[0]) <= _MOST_CHARACTERS else f"…{origins[0][1 - _MOST_CHARACTERS :]}"
    return first if len(origins) == 1 else f"{first} and {len(origins) - 1} more"


plugin_app = typer.Typer(
    no_args_is_help=True, help="Install plug-ins, and show which there are and what each can be told."
)

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


@plugin_app.command()
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
    from fencepost.cli.local.plugin import install_plugin

    install_plugin(plugin, plugin_path, properties, name=name, sha256=sha256, repository=repository)


@plugin_app.command()
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


@plugin_app.command()
def remove(
    plugin: Annotated[
        str,
        typer.Argument(help="The name of its directory, GROUP:ARTIFACT, or what was installed.", metavar="PLUGIN"),
    ],
    plugin_path: _Directory = None,
    properties: _File = None,
) -> None:
    """Remove a plug-in that was installed by `install`."""
    from fencepost.cli.local.plugin import remove_plugin

    remove_plugin(plugin, plugin_path, properties)


@plugin_app.command()
def describe(
    name: Annotated[str, typer.Argument(help="The class, as a config names it.", metavar="NAME")],
    plugin_path: _Directories = None,
    properties: _WholeFile = None,
    kind: Annotated[PluginKind | None, typer.Option(help="What it is, if several kinds have the name.")] = None,
    output: JsonForm = TextOrJson.TEXT,
) -> None:
    """Print the reference of a plug-in: its settings with types, defaults and meanings."""
    from fencepost.cli.local.plugin import find_any, reference, text

    found = find_any(_registry(plugin_path, properties), name, kind)
    if output is TextOrJson.JSON:
        print_json(reference(found), indent=2)
        return
    for line in text(found):
        typer.echo(line)


@plugin_app.command("list")
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
    from fencepost.plugin.origins import Origins

    printer = Printer(output)
    if url or context:
        found = of_worker(url, context, kind)
        cells = [(one["type"], one["class"], one["version"] or "") for one in found]
        printer.listing(found, ("KIND", "CLASS", "VERSION"), cells)
        return
    registry = _registry(plugin_path, properties)
    origins = Origins(registry)
    kinds = PluginKind if kind is None else (kind,)
    rows = [
        (each.value, name, origins.version(each, name), origins.of(each, name))
        for each in kinds
        for name in sorted({n for view in registry.views() for n in view.names(each)})
    ]
    keys = ("type", "class", "version", "from")
    data = [dict(zip(keys, (*row[:3], ", ".join(row[3])), strict=True)) for row in rows]
    printer.listing(data, ("KIND", "CLASS", "VERSION", "FROM"), [(*row[:3], in_short(row[3])) for row in rows])
    for failure in (*registry.failures(), *origins.changes()):
        typer.echo(failure, err=True)


def _registry(plugin_path: list[Path] | None, properties: Path | None) -> PluginRegistry:
    from fencepost.cli.client import plugin_directory, plugin_path_of

    if properties is not None and not plugin_path:
        return PluginRegistry(plugin_path_of(properties))
    own = plugin_directory()
    return PluginRegistry([str(directory) for directory in plugin_path or ([own] if own.is_dir() else [])])


_MOST_SIMILAR = 10


def docs(
    page: Annotated[str, typer.Argument(help="A page, such as how-to/operate; a #heading may follow.")] = "index",
) -> None:
    """Print where a page of the documentation is, and open it in a browser.

    The pages are those of this version, and need no network. A worker has them, too, at `/docs/guide`.
    """
    path, mark, heading = page.partition("#")
    name, files = path.removeprefix("docs/").removesuffix(".md").strip("/"), pages()
    if name not in files:
        _refuse(NO_PAGES if not files else f"There is no page {name}{_hint(name, list(files))}")
    url = f"{files[name].as_uri()}{mark}{heading}"
    typer.echo(url)
    if sys.stdout.isatty():
        webbrowser.open(url)


def _hint(name: str, names: list[str]) -> str:
    """Return pages in whose names the word is, or else those with similar names."""
    known = [each for each in names if name in each][:_MOST_SIMILAR]
    similar = known or difflib.get_close_matches(name, names, _MOST_SIMILAR, cutoff=0.8)
    return f"; there is {', '.join(similar)}" if similar else "; `fencepost docs` opens the first one, with a search"


def _refuse(message: str) -> None:
    typer.echo(message, err=True)
    raise typer.Exit(1)


def hash_password(
    user: Annotated[
        str | None, typer.Argument(help="Print a whole line for this user.", metavar="USER", show_default=False)
    ] = None,
) -> None:
    """Print a hash for `rest.basic.users.file`. The password is asked for, or read from standard input."""
    from fencepost.rest.access.basic import hashed

    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        typer.echo("The password is empty.", err=True)
        raise typer.Exit(1)
    typer.echo(hashed(password) if user is None else f"{_escaped(user)}={hashed(password)}")


def _escaped(key: str) -> str:
    """Return a key as `.properties` files have it."""
    return "".join(f"\\{c}" if c in "\\=: \t#!" else c for c in key)
