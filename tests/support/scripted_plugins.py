"""A registry with Java plug-ins whose hosts are scripted."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fencepost.builtin.java.index import JavaIndex
from fencepost.plugin import PluginRegistry, registry, use_registry
from fencepost.plugin.java_side import JavaSide
from support.jars import SOURCE, write_jar
from support.java_host import ScriptedJava

PRICES = "org.example.PriceSourceConnector"


class ScriptedPlugins(PluginRegistry):
    """What `plugin_path` has; what a JVM would know is asked of `machine`."""

    def __init__(self, plugin_path: Path, machine: ScriptedJava | None = None) -> None:
        super().__init__([str(plugin_path)])
        self.machine = machine or ScriptedJava()
        side = JavaSide(
            self._for_java.find, JavaIndex([str(plugin_path)]), (), self.machine.start, plugin_path / ".facts"
        )
        self._java = (side,)


def plugins_with(
    directory: Path, services: Mapping[str, Sequence[str]] | None = None, machine: ScriptedJava | None = None
) -> ScriptedPlugins:
    """Return the registry of one plug-in with these services; by default, a source connector `PRICES`."""
    write_jar(directory / "plugin" / "plugin.jar", services or {SOURCE: [PRICES]})
    return ScriptedPlugins(directory, machine)


@contextmanager
def used(plugins: PluginRegistry) -> Iterator[None]:
    """Have this process find these plug-ins."""
    before = registry()
    use_registry(plugins)
    try:
        yield
    finally:
        use_registry(before)
