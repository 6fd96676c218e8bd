"""`fencepost plugin install` and `remove`."""

from collections.abc import Sequence
from pathlib import Path

import typer

from fencepost.api import ConnectError
from fencepost.builtin.java.error import JavaPluginError
from fencepost.builtin.java.index import Found, is_archive
from fencepost.builtin.java.install.contents import offered
from fencepost.builtin.java.install.directory import PluginDirectory
from fencepost.builtin.java.install.error import InstallError
from fencepost.builtin.java.install.install import install
from fencepost.builtin.java.install.maven import ensure_repository
from fencepost.builtin.java.install.origin import origin_of
from fencepost.cli.client import plugin_path_of
from fencepost.cli.columns import aligned
from fencepost.cli.places import plugin_directory
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry

_RESTART = "Workers read plug-ins when they start: restart those whose plugin.path has this directory."
_UNKNOWN = "unknown"


def install_plugin(
    text: str,
    directory: Path | None,
    properties: Path | None,
    *,
    name: str | None,
    sha256: str | None,
    repository: str | None,
) -> None:
    """Install a plug-in, and print what is in it. Raises InstallError."""
    place = _directory(directory, properties)
    if repository is not None:
        ensure_repository(repository)
    done = install(origin_of(text, sha256), place, name, repository)
    if done.replaced is not None:
        typer.echo(f"Replaced {done.replaced.manifest.origin}")
    typer.echo(f"Installed in {done.directory}")
    for line in aligned([("KIND", "CLASS", "VERSION"), *_rows(place.path, offered(done.directory))]):
        typer.echo(line)
    typer.echo(_RESTART)


def remove_plugin(name: str, directory: Path | None, properties: Path | None) -> None:
    """Remove a plug-in. Raises InstallError."""
    removed = _directory(directory, properties).remove(name)
    typer.echo(f"Removed {removed.manifest.origin} from {removed.directory.parent}")
    typer.echo(_RESTART)


def _directory(given: Path | None, properties: Path | None) -> PluginDirectory:
    if given is not None or properties is None:
        return PluginDirectory((given or plugin_directory()).absolute())
    found = next((each for each in map(Path, plugin_path_of(properties)) if not is_archive(each)), None)
    if found is None:
        key = WorkerConfig.key_of("plugin_path")
        raise InstallError(f"{properties} names no directory in {key}: add one, or give it here, --plugin-path")
    return PluginDirectory(found.absolute())


def _rows(plugin_path: Path, plugins: Sequence[Found]) -> list[tuple[str, str, str]]:
    """Return a row for each class. Reports classes that cannot be loaded, and a JVM that cannot be started."""
    java = PluginRegistry([str(plugin_path)]).java
    rows, is_asked = [], java is not None
    for kind, java_class in sorted(set(plugins)):
        version = _UNKNOWN
        try:
            if java is not None and is_asked:
                version = java.plugins.questions.facts.version(java_class)
        except JavaPluginError as error:
            typer.echo(f"{java_class.name} cannot be loaded: {error}", err=True)
        except ConnectError as error:
            is_asked = False
            typer.echo(f"The versions are not known: {error}", err=True)
        rows.append((kind.value, java_class.name, version))
    return rows
