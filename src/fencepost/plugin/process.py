"""The registry of this process: one on the worker, one in each slot."""

from collections.abc import Sequence
from typing import Any

from fencepost.plugin.kind import PluginKind
from fencepost.plugin.registry import PluginRegistry

_registry = PluginRegistry()


def use_plugin_path(directories: Sequence[str]) -> PluginRegistry:
    """Add these directories to those in which `find` looks; call this once, before the first look-up."""
    global _registry
    _registry = PluginRegistry(directories)
    return _registry


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
