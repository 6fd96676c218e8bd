"""The registry of plug-ins, with classes of a test beside those that are installed."""

from typing import Any

from fencepost.plugin import PluginKind, PluginRegistry


class OwnPlugins(PluginRegistry):
    """Finds the classes in `own` by their keys, of whatever kind and version they are asked for."""

    def __init__(self, **own: type[Any]) -> None:
        super().__init__()
        self.own = own

    def find(self, kind: PluginKind | str, name: str, version: str | None = None) -> type[Any]:
        return self.own.get(name) or super().find(kind, name, version)
