"""The plug-ins of a worker."""

from collections.abc import Sequence
from typing import Any

from fencepost.plugin import PluginKind

# What REST calls kinds, where that is something else.
_TYPES = {PluginKind.CONNECTOR: ("source", "sink"), PluginKind.TRANSFORM: ("transformation",)}

_MOST_CHARACTERS = 56


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


def in_short(origins: Sequence[str]) -> str:
    """Return where a class is from, in a cell of a table: of several places the first, of a path its end."""
    first = origins[0] if len(origins[0]) <= _MOST_CHARACTERS else f"…{origins[0][1 - _MOST_CHARACTERS :]}"
    return first if len(origins) == 1 else f"{first} and {len(origins) - 1} more"
