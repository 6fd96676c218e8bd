"""Finds connectors, transforms, predicates, converters and replication policies by the names that configs use.

`PluginRegistry` knows the built-in ones (imported only when used), the entry points of other packages, and the files in
the directories of `plugin.path`. A config can only name what is registered: no name in a config is ever imported.
`find` asks the process's own registry, which `use_plugin_path` replaces; every process that runs tasks has one.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any

from fencepost.plugin.installed import PluginDescription, PluginVersionError, VersionUnknownError
from fencepost.plugin.kind import PluginKind
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

log = logging.getLogger(__name__)

_registry = PluginRegistry()
_one_at_a_time = threading.Lock()  # two registries would make two classes of each class of Java's


def use_plugin_path(
    directories: Sequence[str], java_options: Sequence[str] = (), disabled: Sequence[str] = ()
) -> PluginRegistry:
    """Have `find` look in these directories, too; call this once, before the first look-up.

    `java_options` are those of the JVMs of Java plug-ins; `disabled` is the worker's `plugin.disabled`.
    """
    use_registry(PluginRegistry(directories, java_options=java_options, disabled=disabled))
    return _registry


def ensure_plugin_path(
    directories: Sequence[str], java_options: Sequence[str] = (), disabled: Sequence[str] = ()
) -> None:
    """Have `find` look in these directories, too. A registry that does so already stays, with what it has found."""
    with _one_at_a_time:
        if _registry.searches != (tuple(directories), tuple(java_options), tuple(disabled)):
            use_plugin_path(directories, java_options, disabled)


def read_plugin_path(
    directories: Sequence[str], java_options: Sequence[str] = (), disabled: Sequence[str] = ()
) -> PluginRegistry:
    """Do the same, and read what is in the directories now: the log names what cannot be loaded, with the cause."""
    made = use_plugin_path(directories, java_options, disabled)
    for failure in made.failures() if directories else ():
        log.warning("%s", failure)
    return made


def use_registry(made: PluginRegistry) -> None:
    """Have `find` ask this registry instead."""
    global _registry
    _registry = made


def registry() -> PluginRegistry:
    """Return the registry that `find` asks."""
    return _registry


def find(kind: PluginKind | str, name: str, version: str | None = None) -> type[Any]:
    """Return the plug-in's class, in a version that `version` allows. Raises ConfigError, which lists what there is."""
    return _registry.find(kind, name, version)
