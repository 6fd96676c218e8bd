"""Where the plug-ins of a registry are from, and whether Java's are as they were installed."""

import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from fencepost.builtin.java.install.directory import InstallManifest
from fencepost.config import ConfigError
from fencepost.config.version import UNDEFINED
from fencepost.plugin.kind import BUILT_IN, PluginKind
from fencepost.plugin.registry import PluginRegistry


class Origins:
    """The origins of the plug-ins of a registry; those of Java by the manifests of `plugin install`."""

    def __init__(self, registry: PluginRegistry) -> None:
        self._registry = registry
        self._java = registry.java
        locations = () if self._java is None else self._java.plugins.index.locations
        self._manifests = {one.path: InstallManifest.read(Path(one.path)) for one in locations}

    def of(self, kind: PluginKind, name: str) -> list[str]:
        """Return what was installed, or the directory, for each location of a Java class.

        For a class in Python: `built in`, the package that has it, or its file.
        """
        paths = {} if self._java is None else dict.fromkeys(one.path for one in self._java.locations(kind, name))
        manifests = ((path, self._manifests.get(path)) for path in paths)
        found = [path if manifest is None else manifest.origin for path, manifest in manifests]
        return found or ["built in" if name in BUILT_IN[kind] else self._of_python(kind, name)]

    def version(self, kind: PluginKind, name: str) -> str:
        """Return the versions of a class: of Java those that were installed, so that no JVM has to be asked."""
        if self._java is not None and self._java.locations(kind, name):
            found = [origin.rpartition(":")[2] for origin in self.of(kind, name) if origin.count(":") == 2]
        else:
            found = [version for version in self._registry.versions(kind, name) if version != UNDEFINED]
        return ", ".join(dict.fromkeys(found))

    def _of_python(self, kind: PluginKind, name: str) -> str:
        try:
            cls = self._registry.find(kind, name)
        except ConfigError:
            return ""
        packages = packages_distributions().get(cls.__module__.partition(".")[0])
        return packages[0] if packages else str(getattr(sys.modules.get(cls.__module__), "__file__", None) or "")

    def changes(self) -> Iterator[str]:
        """Yield a text for each plug-in whose files are not those that were installed."""
        for path, manifest in self._manifests.items():
            changed = [] if manifest is None else manifest.changed(Path(path))
            if manifest is not None and changed:
                yield (
                    f"{path} is not as it was installed, since {', '.join(changed)} changed: "
                    f"fencepost plugin install {manifest.origin}"
                )
