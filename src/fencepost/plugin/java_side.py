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
from fencepost.plugin.installed import Installed, PluginDescription, VersionUnknownError
from fencepost.plugin.kind import BUILT_IN, PluginKind, aliases_of, class_keys

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
        return self._side._version(self._kind, self._class)

    @property
    def cls(self) -> type[Any]:
        return self.loaded()

    def loaded(self) -> type[Any]:
        return self._side.plugins.made(self._kind, self._class)


class JavaSide:
    """The Java plug-ins of one registry. Thread-safe."""

    def __init__(
        self,
        find: Callable[[PluginKind, str, str | None], type[Any]],
        index: JavaIndex,
        options: Sequence[str] = (),
        start: Callable[[HostOptions], Any] | None = None,
        facts_directory: Path | None = None,
    ) -> None:
        """`find` finds what configs of Java connectors name; `facts_directory` keeps what classes say of themselves.

        `start` starts a host, by default a real one.
        """
        self.plugins = JavaPlugins(index, JavaHosts(options, start), class_for, facts_directory=facts_directory)
        self.plugins.names = self
        self._find = find
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

    def of_runtime(self, kind: PluginKind) -> dict[str, Sequence[Installed]]:
        """Return Kafka's own classes, of which plug-ins may bring copies along."""
        runtime = [full for full in BUILT_IN[kind] if full.startswith(_OF_KAFKA)]
        return {full: [InstalledJava(self, _KINDS[kind][0], JavaClass(full))] for full in runtime}

    def advice(self, name: str) -> str:
        """Return how to get a class that is not found."""
        known = plugin_of(name)
        command = "`fencepost plugin install`, if it is a Java class" if known is None else known.command
        return f"Install the plug-in of {name} in plugin.path ({command}), and restart the worker"

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
        return kind in _KINDS

    def _version(self, kind: JavaKind, java_class: JavaClass) -> str | None:
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
                cls = self._find(kind, name, config.get(prefix + PLUGIN_VERSION))
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
            cls = self._find(kind, config.get(key, "").strip(), config.get(prefix + PLUGIN_VERSION))
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
    predicate = config.get(f"{_TRANSFORMS}.{alias}.predicate", "").strip()
    return {f"{_TRANSFORMS}.{alias}.type", f"{_PREDICATES}.{predicate}.type"}
