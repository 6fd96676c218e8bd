"""Finds connectors, transforms, predicates, converters and replication policies by the names that configs use.

`PluginRegistry` knows the built-in ones (imported only when used), the entry points of other packages, and the files in
the directories of `plugin.path`. A config can only name what is registered: no name in a config is ever imported.
`find` asks the process's own registry, which `use_plugin_path` replaces; every process that runs tasks has one.
"""

from fencepost.plugin.installed import PluginDescription, PluginVersionError, VersionUnknownError
from fencepost.plugin.kind import PluginKind
from fencepost.plugin.process import ensure_plugin_path, find, read_plugin_path, registry, use_plugin_path, use_registry
from fencepost.plugin.registry import PluginRegistry

__all__ = [
    "PluginDescription",
    "PluginKind",
    "PluginRegistry",
    "PluginVersionError",
    "VersionUnknownError",
    "ensure_plugin_path",
    "find",
    "read_plugin_path",
    "registry",
    "use_plugin_path",
    "use_registry",
]
