"""Finds connectors, transforms, predicates and converters by the names that configs use.

`PluginRegistry` knows the built-ins (imported only when asked for), what other packages offer as entry points, and what
lies in the directories of `plugin.path`. A config can only name what is registered: no name is ever imported as such.
"""

from fencepost.plugin.kind import PluginKind
from fencepost.plugin.registry import PluginDescription, PluginRegistry

__all__ = ["PluginDescription", "PluginKind", "PluginRegistry"]
