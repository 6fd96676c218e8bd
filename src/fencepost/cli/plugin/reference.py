"""The reference of a plug-in, from its class: as data, and as text for a terminal."""

import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from fencepost.config import Config, ConfigError, Setting
from fencepost.config.setting import rendered
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.plugin.about import about

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
