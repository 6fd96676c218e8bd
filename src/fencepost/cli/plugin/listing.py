"""The plug-ins of a worker."""

from typing import Any

from fencepost.plugin import PluginKind

# What REST calls kinds, where that is something else.
_TYPES = {PluginKind.CONNECTOR: ("source", "sink"), PluginKind.TRANSFORM: ("transformation",)}


def of_worker(url: str | None, context: str | None, kind: PluginKind | None) -> list[dict[str, Any]]:
    """Return the plug-ins of a worker, or those of one kind: `class`, `type`, `version`. Raises as `Connect` does."""
    from fencepost.cli.connect import Connect
    from fencepost.cli.rest import access

    with Connect(access(url, context)) as connect:
        found: list[dict[str, Any]] = connect.get("connector-plugins", connectorsOnly="false")
    types = None if kind is None else _TYPES.get(kind, (kind.value,))
    return [
        {"class": one["class"], "type": one["type"], "version": one.get("version")}
        for one in found
        if types is None or one["type"] in types
    ]
