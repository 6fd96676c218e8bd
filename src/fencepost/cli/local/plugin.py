"""`fencepost plugin`: installs and removes plug-ins, and prints the reference of each."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from fencepost.api import ConnectError
from fencepost.builtin.java.error import JavaPluginError
from fencepost.builtin.java.index import Found, is_archive, offered
from fencepost.builtin.java.install.directory import PluginDirectory
from fencepost.builtin.java.install.install import install
from fencepost.builtin.java.install.known import InstallError
from fencepost.builtin.java.install.maven import ensure_repository
from fencepost.builtin.java.install.origin import origin_of
from fencepost.cli.client import plugin_directory, plugin_path_of
from fencepost.cli.output import aligned
from fencepost.config import Config, ConfigError, Setting
from fencepost.config.setting import rendered
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.plugin.installed import about

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


_WIDTH = 100


class Named(NamedTuple):
    """A plug-in that was found by its name."""

    kind: PluginKind
    name: str
    plugin: type[Any]


def find_any(registry: PluginRegistry, name: str, kind: PluginKind | None) -> Named:
    """Return the plug-in of that name, of any kind unless `kind` is given. Raises ConfigError as the registry does."""
    errors: list[ConfigError] = []
    for view in registry.views():
        for each in PluginKind if kind is None else (kind,):
            try:
                plugin = view.find(each, name)
            except ConfigError as error:
                errors.append(error)
                continue
            return Named(each, view.name_of(each, plugin), plugin)
    raise errors[0]


def reference(found: Named) -> dict[str, Any]:
    """Return what `fencepost plugin describe --output json` prints."""
    plugin = found.plugin
    return {
        "class": found.name,
        "type": found.kind.type_of(plugin) if found.kind.is_listed else found.kind.value,
        "version": getattr(plugin, "version", None),
        "documentation": about(plugin),
        "settings": [_setting(one) for one in _settings(plugin)],
    }


def text(found: Named) -> Iterator[str]:
    """Yield the same as lines: a heading, the documentation, and each setting with its type, default and meaning."""
    facts = reference(found)
    version = f", version {facts['version']}" if facts["version"] else ""
    yield f"{facts['class']} ({facts['type']}{version})"
    for paragraph in filter(None, facts["documentation"].split("\n\n")):
        yield ""
        yield from textwrap.wrap(paragraph, _WIDTH)
    if not facts["settings"]:
        yield from ("", "It has no settings of its own.")
    for one in facts["settings"]:
        default = "required" if one["required"] else f"default {_shown(one['default'])}"
        valid = f", {one['valid_values']}" if one["valid_values"] else ""
        yield from ("", f"{one['name']}  ({one['type'].lower()}, {default}{valid}, {one['importance'].lower()})")
        yield from textwrap.wrap(one["documentation"], _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _settings(plugin: type[Config]) -> list[Setting]:
    return list(plugin.settings().values())


def _setting(one: Setting) -> dict[str, Any]:
    return {
        "name": one.key,
        "type": one.kind.value,
        "required": one.is_required,
        "default": None if one.is_required else rendered(one.default, one.kind),
        "valid_values": one.check.text if one.check else ", ".join(one.recommended),
        "importance": one.importance.value,
        "documentation": one.doc,
    }


def _shown(default: str | None) -> str:
    return "unset" if default is None else default or "empty"
