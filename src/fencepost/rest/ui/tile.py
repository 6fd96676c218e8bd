"""The connectors that can be created, each a tile with what it does, and those that can be installed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.builtin.java.install.known import search
from fencepost.config import ConfigError
from fencepost.plugin import PluginKind
from fencepost.plugin.about import summary
from fencepost.plugin.process import registry


@dataclass(frozen=True, slots=True)
class Tile:
    """An installed connector; `about` is empty if its class says nothing, as Java's."""

    plugin: str
    kind: str
    version: str | None
    about: str

    @property
    def name(self) -> str:
        return self.plugin.rpartition(".")[2]


def summaries() -> dict[str, str]:
    """Return what each connector in Python does, by full name. On a thread: it imports their classes."""
    plugins, found = registry(), {}
    for name in plugins.python_names(PluginKind.CONNECTOR):
        try:
            found[name] = summary(plugins.find(PluginKind.CONNECTOR, name))
        except ConfigError:
            continue
    return found


def tiles(plugins: Iterable[Mapping[str, Any]], about: Mapping[str, str]) -> list[Tile]:
    """Return a tile for each entry of `GET /connector-plugins`, sorted by name."""
    found = [Tile(one["class"], one["type"], one.get("version"), about.get(one["class"], "")) for one in plugins]
    return sorted(found, key=lambda tile: tile.name.casefold())


def installable(text: str, installed: Iterable[Tile]) -> list[tuple[str, str]]:
    """Return known connectors that are not installed and have the text in their names, with what installs each."""
    there = {tile.plugin for tile in installed}
    return [(name, plugin.plain_command) for name, plugin in search(text) if name not in there]


def chosen(found: Iterable[Tile], text: str) -> list[Tile]:
    """Return the tiles that have each word of the text in the class or in what it does."""
    words = text.casefold().split()
    return [tile for tile in found if all(word in f"{tile.plugin} {tile.about}".casefold() for word in words)]
