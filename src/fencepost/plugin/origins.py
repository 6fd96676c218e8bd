"""Where the Java plug-ins of a registry are from."""

from collections.abc import Iterator
from pathlib import Path

from fencepost.java.install.manifest import InstallManifest
from fencepost.plugin.kind import PluginKind
from fencepost.plugin.registry import PluginRegistry


class Origins:
    """The origins of the Java plug-ins of a registry, by the manifests of `plugin install`."""

    def __init__(self, registry: PluginRegistry) -> None:
        self._java = registry.java
        locations = () if self._java is None else self._java.plugins.index.locations
        self._manifests = {one.path: InstallManifest.read(Path(one.path)) for one in locations}

    def of(self, kind: PluginKind, name: str) -> str:
        """Return what was installed, or the directory, for each location that has a Java class; empty for Python's."""
        if self._java is None:
            return ""
        paths = dict.fromkeys(one.path for one in self._java.locations(kind, name))
        manifests = ((path, self._manifests.get(path)) for path in paths)
        return ", ".join(path if manifest is None else manifest.origin for path, manifest in manifests)

    def changes(self) -> Iterator[str]:
        """Yield a text for each plug-in whose files are not those that were installed."""
        for path, manifest in self._manifests.items():
            changed = [] if manifest is None else manifest.changed(Path(path))
            if manifest is not None and changed:
                yield (
                    f"{path} is not as it was installed, since {', '.join(changed)} changed: "
                    f"fencepost plugin install {manifest.origin}"
                )
