"""The Java plug-ins in the registry: a third source of connectors, and all that configs of Java connectors name."""

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from fencepost.builtin.java.connector import class_for, java_class_of
from fencepost.builtin.java.error import HostEndedError, HostKilledError, JavaError, JavaPluginError
from fencepost.builtin.java.index import Found, JavaIndex, JavaKind
from fencepost.builtin.java.install.known import plugin_of
from fencepost.builtin.java.plugins import Divided, JavaHosts, JavaPlugins
from fencepost.builtin.java.port import Classes, HostOptions, JavaClass, Location
from fencepost.config import ConfigError
from fencepost.config.connector import PLUGIN_VERSION, ConnectorConfig
from fencepost.config.name_pattern import answers_to
from fencepost.plugin.builtin import BUILT_IN
from fencepost.plugin.kind import PluginKind, aliases_of, class_keys
from fencepost.plugin.registry import Installed, PluginDescription, PluginRegistry, VersionUnknownError

log = logging.getLogger(__name__)

_OF_KAFKA = "org.apache.kafka."
_TRANSFORMS, _PREDICATES = (ConnectorConfig.key_of(name) for name in ("transforms", "predicates"))
_OF_BYTES = {
    ConnectorConfig.key_of("key_converter"): f"{_OF_KAFKA}connect.converters.ByteArrayConverter",
    ConnectorConfig.key_of("value_converter"): f"{_OF_KAFKA}connect.converters.ByteArrayConverter",
    ConnectorConfig.key_of("header_converter"): f"{_OF_KAFKA}connect.storage.SimpleHeaderConverter",
}
"""What the host of a mixed chain has as converters, and does not use."""
_KINDS: Mapping[PluginKind, Sequence[JavaKind]] = {
    PluginKind.CONNECTOR: (JavaKind.SINK, JavaKind.SOURCE),
    PluginKind.TRANSFORM: (JavaKind.TRANSFORM,),
    PluginKind.PREDICATE: (JavaKind.PREDICATE,),
    PluginKind.CONVERTER: (JavaKind.CONVERTER,),
    PluginKind.HEADER_CONVERTER: (JavaKind.HEADER_CONVERTER,),
    PluginKind.CONFIG_PROVIDER: (JavaKind.CONFIG_PROVIDER,),
}


class InstalledJava:
    """A Java class in one location. Its version is asked for only if something depends on it."""

    def __init__(self, side: "JavaSide", kind: JavaKind, java_class: JavaClass) -> None:
        self._side = side
        self._kind = kind
        self._class = java_class

    @property
    def version(self) -> str | None:
        """Return the version; None if the class does not say. Raises VersionUnknownError."""
        return self._side.version(self._kind, self._class)

    @property
    def cls(self) -> type[Any]:
        return self.loaded()

    def loaded(self) -> type[Any]:
        return self._side.plugins.made(self._kind, self._class)


class JavaSide:
    """The Java plug-ins of one registry. Thread-safe."""

    def __init__(
        self,
        registry: PluginRegistry,
        index: JavaIndex,
        options: Sequence[str] = (),
        start: Callable[[HostOptions], Any] | None = None,
        facts_directory: Path | None = None,
    ) -> None:
        """`start` starts a host, by default a real one; `facts_directory` keeps what classes say of themselves."""
        self.plugins = JavaPlugins(index, JavaHosts(options, start), class_for, facts_directory=facts_directory)
        self.plugins.names = self
        self.registry = JavaRegistry(registry, self)
        """Finds what configs of Java connectors name."""
        self._broken: dict[JavaClass, str] = {}

    @property
    def failures(self) -> tuple[str, ...]:
        """Return a text for each jar that cannot be read, and each class that was found to be broken."""
        return (*self.plugins.index.failures, *self._broken.values())

    def class_of(self, cls: type[Any]) -> JavaClass | None:
        """Return the Java class that a class stands for; None for one of Python."""
        return java_class_of(cls)

    def installed(self, kind: PluginKind) -> dict[str, Sequence[Installed]]:
        """Return the classes that services files name, by full name."""
        found: dict[str, Sequence[Installed]] = {}
        for each in _KINDS.get(kind, ()):
            for full, classes in self.plugins.index.named(each).items():
                found[full] = [InstalledJava(self, each, one) for one in classes]
        return found

    def outside(self, kind: PluginKind, name: str) -> dict[str, Sequence[Installed]]:
        """Return the class of that full name that no services file names, in all locations that have it."""
        found: list[Found] = [each for each in self.plugins.outside(name) if each.kind in _KINDS.get(kind, ())]
        return {name: [InstalledJava(self, *each) for each in found]} if found else {}

    def locations(self, kind: PluginKind, name: str) -> list[Location]:
        """Return where the class of that full name is that services files name. A built-in connector precedes it."""
        if kind is PluginKind.CONNECTOR and name in BUILT_IN[kind]:
            return []
        classes = [one for each in _KINDS.get(kind, ()) for one in self.plugins.index.named(each).get(name, ())]
        return [one.location for one in classes if one.location is not None]

    def has_kind(self, kind: PluginKind) -> bool:
        """Say whether Java has classes of this kind."""
        return kind in _KINDS

    def version(self, kind: JavaKind, java_class: JavaClass) -> str | None:
        """Return a class's version; None if it is broken, throws, or hangs or ends its host twice in a row.

        Raises VersionUnknownError if no host can say, and it is not known that the class is to blame.
        """
        try:
            return self.plugins.questions.facts.version(java_class)
        except JavaPluginError as error:
            self._broken[java_class] = str(error)
        except JavaError as error:
            log.warning("the version of %s is not known: %s", java_class.name, error)
        except Exception as error:
            place = "" if java_class.location is None else f" in {java_class.location.path}"
            is_own_doing = isinstance(error, HostEndedError) and not isinstance(error, HostKilledError)
            if is_own_doing:  # its other versions, in other places, can be used
                log.warning("the version of %s%s is not known: %s", java_class.name, place, error)
                return None
            text = f"the version of {java_class.name}{place} is not known now, so try again later: {error}"
            raise VersionUnknownError(text, self.plugins.made(kind, java_class)) from error
        return None

    def known_version(self, java_class: JavaClass) -> str | None:
        """Return a class's version if it is known without a JVM."""
        return self.plugins.questions.facts.known_version(java_class)

    def descriptions(self, kind: PluginKind, hidden: set[str]) -> list[PluginDescription]:
        """Return lines of `GET /connector-plugins`, without broken classes.

        `hidden`: names that Python has. Kafka's own classes are those of its runtime, even if a plug-in brings copies
        of them along, except for connectors, of which a config may ask for a version.
        """
        found = []
        for full, installed in sorted(self.installed(kind).items()):
            if full in hidden and full.startswith(_OF_KAFKA) and kind is not PluginKind.CONNECTOR:
                continue
            for one in installed:
                version, cls = _shown_version(one), one.loaded()
                if java_class_of(cls) not in self._broken:
                    found.append(PluginDescription(full, kind.type_of(cls), version))
        return found

    def classes(self, config: Mapping[str, str]) -> Classes:
        """Return what the class names in a connector's config mean. The host looks for those that are not here.

        Raises VersionUnknownError.
        """
        found: dict[str, JavaClass] = {}
        for kind, key, prefix in class_keys(config):
            name = config.get(key, "").strip()
            try:
                cls = self.registry.find(kind, name, config.get(prefix + PLUGIN_VERSION))
            except VersionUnknownError:  # the host would take any
                raise
            except ConfigError:
                continue
            java_class = java_class_of(cls)
            if java_class is not None:
                found[name] = java_class
        return found

    def divide(self, config: Mapping[str, str], *, is_source: bool) -> Divided | None:
        """Divide the config of a Java connector between its host and its slot; None if the host does all of it."""
        python = {key for kind, key, prefix in class_keys(config) if self._is_python(kind, config, key, prefix)}
        if not python:
            return None
        aliases = aliases_of(config, _TRANSFORMS)
        is_java = [python.isdisjoint(_keys_of_classes(config, alias)) for alias in aliases]
        count = len(list(takewhile(bool, is_java if is_source else reversed(is_java))))
        at = count if is_source else len(aliases) - count
        hosted, rest = (aliases[:at], aliases[at:]) if is_source else (aliases[at:], aliases[:at])
        own = {**config, _TRANSFORMS: ",".join(hosted), **_OF_BYTES}
        return Divided(own, {**config, _TRANSFORMS: ",".join(rest)})

    def _is_python(self, kind: PluginKind, config: Mapping[str, str], key: str, prefix: str) -> bool:
        try:
            cls = self.registry.find(kind, config.get(key, "").strip(), config.get(prefix + PLUGIN_VERSION))
        except ConfigError:  # the host looks for it, and says what is wrong
            return False
        return java_class_of(cls) is None


def _shown_version(one: Installed) -> str | None:
    try:
        return one.version
    except VersionUnknownError as error:
        log.warning("%s", error)
        return None


def _keys_of_classes(config: Mapping[str, str], alias: str) -> set[str]:
    prefix = f"{_TRANSFORMS}.{alias}."
    return {f"{prefix}type", f"{_PREDICATES}.{config.get(f'{prefix}predicate', '').strip()}.type"}


class JavaRegistry(PluginRegistry):
    """The registry as configs of Java connectors see it: connectors as everywhere, and all else Java's if it is there.

    Kafka's own transforms, predicates and converters are those of its runtime, in which the host runs.
    """

    def __init__(self, registry: PluginRegistry, side: JavaSide) -> None:
        super().__init__(disabled=registry.disabled.names)
        self._registry = registry
        self._side = side

    @property
    def java(self) -> JavaSide:
        return self._side

    def names(self, kind: PluginKind | str) -> list[str]:
        kind = PluginKind(kind)
        if kind is PluginKind.CONNECTOR or kind not in _KINDS:
            return self._registry.names(kind)
        return self.disabled.others(kind, (*self._not_built_in(kind), *self._registry.python_names(kind)))

    def beside(self, connector: type[Any]) -> PluginRegistry:
        return self._registry.beside(connector)

    def _installed(self, kind: PluginKind, name: str) -> tuple[str, Sequence[Installed]]:
        if kind is PluginKind.CONNECTOR or kind not in _KINDS:
            return self._registry._installed(kind, name)
        found = self._not_built_in(kind)
        is_java = any(answers_to(full, name, kind.suffix) for full in found) or self._side.outside(kind, name)
        python = None if is_java else self._registry.in_python(kind, name)
        return self._chosen(kind, name, found) if python is None else python

    def _names_java(self, kind: PluginKind) -> bool:
        return True

    def _not_built_in(self, kind: PluginKind) -> Mapping[str, Sequence[Installed]]:
        runtime = [full for full in BUILT_IN[kind] if full.startswith(_OF_KAFKA)]
        own: dict[str, Sequence[Installed]] = {
            full: [InstalledJava(self._side, _KINDS[kind][0], JavaClass(full))] for full in runtime
        }
        return {**self._side.installed(kind), **own}  # a plug-in may bring copies of Kafka's classes along

    def _advice(self, kind: PluginKind, name: str) -> str | None:
        known = plugin_of(name)
        command = "`fencepost plugin install`, if it is a Java class" if known is None else known.command
        return f"Install the plug-in of {name} in plugin.path ({command}), and restart the worker"
