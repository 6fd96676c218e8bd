"""The registry: names to classes."""

import importlib
import inspect
import logging
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost import __version__
from fencepost.config import ConfigError
from fencepost.config.version import UNDEFINED, answers_to, requirement_of
from fencepost.plugin.directory import modules_in, other_version_of, public_name
from fencepost.plugin.installed import Installed, PluginDescription, no_version, oldest_first
from fencepost.plugin.kind import BUILT_IN, FORMER_NAMES, PluginKind
from fencepost.plugin.mistake import class_fault, import_fault, offer_for, unknown


@dataclass(frozen=True)
class Disabled:
    """`names`: of classes, in any form that a config may use."""

    names: tuple[str, ...] = ()

    def has(self, kind: PluginKind, full: str) -> bool:
        return any(answers_to(full, name, kind.suffix) for name in self.names)

    def others(self, kind: PluginKind, every: Iterable[str]) -> list[str]:
        """Return the full names that are not disabled, sorted."""
        return sorted(full for full in set(every) if not self.has(kind, full))


if TYPE_CHECKING:
    from fencepost.plugin.java_side import JavaSide

log = logging.getLogger(__name__)

_one_at_a_time = threading.Lock()  # a module that another thread is importing looks complete


class _Installed(NamedTuple):
    """A plug-in in Python; `target` is the module and the name of a built-in class."""

    version: str | None
    cls: type[Any] | None = None
    target: str = ""

    def loaded(self) -> type[Any]:
        return _loaded(self.target) if self.cls is None else self.cls


class PluginRegistry:
    """Finds plug-ins by full class name, by class name alone, or by class name without the suffix of its kind.

    Built-in plug-ins have precedence; a Java connector of the same name is another version of it. Entry points of other
    packages and the directories of `plugin_path` are searched once, when a name is not built in. If several versions of
    a class are installed, the newest that a requirement allows is found (KIP-891). Thread-safe.

    Java plug-ins are found like the others, unless Python has a class of the same name. What the config of a Java
    connector names, such as transforms and converters, is Java's if Java has it: `beside` returns the registry that
    finds it.
    """

    def __init__(
        self,
        plugin_path: Sequence[str] = (),
        *,
        connectors: Sequence[type[Any]] = (),
        java_options: Sequence[str] = (),
        disabled: Sequence[str] = (),
    ) -> None:
        """Search `plugin_path`: directories of plug-ins, and Java archives.

        `connectors` are known, too. `java_options` are those of the JVMs that run Java plug-ins. Configs may not name
        the `disabled` classes, in any form.
        """
        self._directories = tuple(directory for directory in plugin_path if directory)
        self._connectors = tuple(connectors)
        self._java_options = tuple(java_options)
        self.disabled = Disabled(tuple(disabled))
        self.searches = (self._directories, self._java_options, self.disabled.names)
        self._found: _Found | None = None
        self._failures: list[str] = []
        self._java: tuple[JavaSide | None, ...] = ()  # empty: not looked for yet

    @property
    def java(self) -> "JavaSide | None":
        """Return the Java plug-ins; None if there are none, and then nothing of Java is imported."""
        if not self._java and self._directories:
            with _one_at_a_time:
                self._java = self._java or (self._java_looked_up(),)
        return self._java[0] if self._java else None

    def _java_looked_up(self) -> "JavaSide | None":
        from fencepost.builtin.java.index import JavaIndex

        index = JavaIndex(self._directories)
        if not index.locations and not index.failures:
            return None
        from fencepost.plugin.java_side import JavaSide

        return JavaSide(self._for_java.find, index, self._java_options)

    @cached_property
    def _for_java(self) -> "JavaRegistry":
        """Return the registry that finds what configs of Java connectors name."""
        return JavaRegistry(self)

    def find(self, kind: PluginKind | str, name: str, version: str | None = None) -> type[Any]:
        """Return the class of that name, in the newest version that `version` allows.

        Raises:
            PluginVersionError: It is installed in other versions only, which are listed.
            VersionUnknownError: Several versions are installed, of Java, and no host says which is which.
            ConfigError: There is no such class, it is disabled, or it is a connector that cannot run. Or `version`
                cannot be read.
        """
        kind = PluginKind(kind)
        full, installed = self._installed(kind, name)
        if self.disabled.has(kind, full):
            raise ConfigError(f"{full} is in plugin.disabled of the worker's file: name another class")
        try:
            requirement = requirement_of(version)
        except ValueError as error:
            raise ConfigError(f"{version} is not a requirement on the version of {full}: {error}") from None
        newest_first = reversed(installed)
        found = next((one for one in newest_first if requirement is None or requirement.allows(one.version)), None)
        if found is None:
            assert requirement is not None
            raise no_version(full, requirement, installed)
        fault = None if found.cls is None else class_fault(found.cls)
        if fault is not None:
            raise ConfigError(fault)
        return found.loaded()

    def beside(self, connector: type[Any]) -> "PluginRegistry":
        """Return the registry that finds what the config of a connector of this class names beside the connector."""
        return self if self.java is None or self.java.class_of(connector) is None else self._for_java

    def views(self) -> "Sequence[PluginRegistry]":
        """Return the registries in which everything is found: this one, and that for configs of Java connectors."""
        return (self,) if self.java is None else (self, self._for_java)

    def versions(self, kind: PluginKind | str, name: str) -> tuple[str, ...]:
        """Return the installed versions of a class, oldest first; none if there is none, or they are not known now."""
        try:
            return tuple(one.version or UNDEFINED for one in self._installed(PluginKind(kind), name)[1])
        except ConfigError:
            return ()

    def version_of(self, kind: PluginKind | str, cls: type[Any]) -> str | None:
        """Return the version of a class that `find` has returned; None if a JVM would have to be asked for it."""
        kind = PluginKind(kind)
        if self.java is not None and (java_class := self.java.class_of(cls)) is not None:
            return self.java.plugins.questions.facts.known_version(java_class)
        installed = self._installed(kind, self.name_of(kind, cls))[1]
        return next((one.version for one in installed if one.cls is cls), installed[-1].version) or UNDEFINED

    def names(self, kind: PluginKind | str) -> list[str]:
        """Return the full names of all classes of a kind that configs can name."""
        kind = PluginKind(kind)
        return self.disabled.others(kind, (*BUILT_IN[kind], *self._not_built_in(kind)))

    def name_of(self, kind: PluginKind, cls: type[Any]) -> str:
        """Return the full name that `all_plugins` gives the class."""
        if self.java is not None and (java_class := self.java.class_of(cls)) is not None:
            return java_class.name
        for full, target in BUILT_IN[kind].items():
            if target == f"{cls.__module__}:{cls.__qualname__}":
                return full
        return public_name(cls)

    def _installed(self, kind: PluginKind, name: str) -> "tuple[str, Sequence[Installed]]":
        """Return the full name and the versions, oldest first. Raises ConfigError if there is no such class."""
        built_in = _built_in(kind, name)
        if built_in is not None:
            of_java = {} if self.java is None or not self._names_java(kind) else self.java.installed(kind)
            return built_in, [*of_java.get(built_in, ()), _Installed(__version__, target=BUILT_IN[kind][built_in])]
        return self._chosen(kind, name, self._not_built_in(kind))

    def in_python(self, kind: PluginKind, name: str) -> "tuple[str, Sequence[Installed]] | None":
        """Return the full name of a class in Python, and its versions; None if there is none, or more than one."""
        if _built_in(kind, name) is not None:
            return self._installed(kind, name)
        own = self._third_party()[kind]
        matches = [full for full in own if answers_to(full, name, kind.suffix)]
        return (matches[0], oldest_first(own[matches[0]])) if len(matches) == 1 else None

    def _chosen(
        self, kind: PluginKind, name: str, found: "Mapping[str, Sequence[Installed]]"
    ) -> "tuple[str, Sequence[Installed]]":
        matches = [full for full in found if answers_to(full, name, kind.suffix)]
        if not matches and self.java is not None and self._names_java(kind):
            found = self.java.outside(kind, name)
            matches = list(found)
        if not matches:
            raise ConfigError(self._unknown(kind, name))
        if len(matches) > 1:
            raise ConfigError(
                f"More than one {kind.suffix.lower()} matches alias {name}. Please use full package and class name "
                f"instead. Classes found: {', '.join(matches)}"
            )
        return matches[0], oldest_first(found[matches[0]])

    def _names_java(self, kind: PluginKind) -> bool:
        return self.java is not None and self.java.has_kind(kind)

    def _not_built_in(self, kind: PluginKind) -> "Mapping[str, Sequence[Installed]]":
        own = self._third_party()[kind]
        if self.java is None or not self._names_java(kind):
            return own
        return {**self.java.installed(kind), **own}

    def all_plugins(self) -> list[PluginDescription]:
        """Return all that are listed: connectors, transforms, predicates, converters, header converters."""
        return [
            description
            for kind in PluginKind
            if kind.is_listed
            for description in self._descriptions(kind)
            if not self.disabled.has(kind, description.class_name)
        ]

    def _descriptions(self, kind: PluginKind) -> list[PluginDescription]:
        """Return the built-in ones before the others, and sinks before sources, as Kafka Connect does."""
        of_java = [] if self.java is None else self.java.descriptions(kind, hidden=self.python_names(kind))
        found = [
            *(
                PluginDescription(full, kind.type_of(_loaded(target)), __version__)
                for full, target in sorted(BUILT_IN[kind].items())
            ),
            *(
                PluginDescription(full, kind.type_of(one.loaded()), one.version)
                for full, installed in sorted(self._third_party()[kind].items())
                for one in installed
            ),
            *of_java,
        ]
        return sorted(found, key=lambda one: one.type)

    def failures(self) -> tuple[str, ...]:
        """Return a text for each plug-in that could not be loaded."""
        self._third_party()
        return (*self._failures, *(() if self.java is None else self.java.failures))

    def python_names(self, kind: PluginKind) -> set[str]:
        return {*BUILT_IN[kind], *self._third_party()[kind]}

    def _third_party(self) -> "_Found":
        with _one_at_a_time:
            return self._found if self._found is not None else self._looked_up()

    def _looked_up(self) -> "_Found":
        failures: list[str] = []
        found: _Found = {kind: {} for kind in PluginKind}
        of_packages = list(_from_entry_points(failures))
        kind = PluginKind.CONNECTOR
        of_packages += [(kind, cls, _version(kind, cls)) for cls in self._connectors]
        roots = {cls.__module__.partition(".")[0] for _, cls, _ in of_packages}
        for kind, cls, version in (*of_packages, *_from_directories(self._directories, failures, roots)):
            installed = found[kind].setdefault(public_name(cls), [])
            same = next((one for one in installed if one.version == version and one.cls is not cls), None)
            if same is not None:
                failures.append(
                    f"{public_name(cls)} of {_file(cls)} is ignored: that of {_file(same.loaded())} has the same "
                    f"version, {version or UNDEFINED}"
                )
            elif all(one.cls is not cls for one in installed):
                installed.append(_Installed(version, cls))
        for each in found.values():
            for full, installed in each.items():
                each[full] = oldest_first(installed)
        self._failures = failures
        self._found = found
        return found

    def _unknown(self, kind: PluginKind, name: str) -> str:
        others = [other for other in PluginKind if _built_in(other, name) is not None]
        advice = f"{name} is a {others[0].replace('_', ' ')}, not a {kind.replace('_', ' ')}" if others else None
        return unknown(kind, name, self.names(kind), self.failures(), advice or self._advice(kind, name))

    def _advice(self, kind: PluginKind, name: str) -> str | None:
        return offer_for(kind, name)


class JavaRegistry(PluginRegistry):
    """The registry as configs of Java connectors see it: connectors as everywhere, and all else Java's if it is there.

    Kafka's own transforms, predicates and converters are those of its runtime, in which the host runs.
    """

    def __init__(self, registry: PluginRegistry) -> None:
        super().__init__(disabled=registry.disabled.names)
        self._registry = registry

    @property
    def java(self) -> "JavaSide":
        assert self._registry.java is not None  # this one is asked only if there are Java plug-ins
        return self._registry.java

    def names(self, kind: PluginKind | str) -> list[str]:
        kind = PluginKind(kind)
        if kind is PluginKind.CONNECTOR or not self.java.has_kind(kind):
            return self._registry.names(kind)
        return self.disabled.others(kind, (*self._not_built_in(kind), *self._registry.python_names(kind)))

    def beside(self, connector: type[Any]) -> PluginRegistry:
        return self._registry.beside(connector)

    def _installed(self, kind: PluginKind, name: str) -> tuple[str, Sequence[Installed]]:
        if kind is PluginKind.CONNECTOR or not self.java.has_kind(kind):
            return self._registry._installed(kind, name)
        found = self._not_built_in(kind)
        is_java = any(answers_to(full, name, kind.suffix) for full in found) or self.java.outside(kind, name)
        python = None if is_java else self._registry.in_python(kind, name)
        return self._chosen(kind, name, found) if python is None else python

    def _names_java(self, kind: PluginKind) -> bool:
        return True

    def _not_built_in(self, kind: PluginKind) -> Mapping[str, Sequence[Installed]]:
        return {**self.java.installed(kind), **self.java.of_runtime(kind)}

    def _advice(self, kind: PluginKind, name: str) -> str | None:
        return self.java.advice(name)


_Found = dict[PluginKind, dict[str, list[_Installed]]]


def _built_in(kind: PluginKind, name: str) -> str | None:
    name = FORMER_NAMES.get(name, name)
    for full, target in BUILT_IN[kind].items():
        if answers_to(full, name, kind.suffix) or name == target.replace(":", "."):
            return full
    return None


def _loaded(target: str) -> type[Any]:
    module, _, attribute = target.partition(":")
    cls: type[Any] = getattr(importlib.import_module(module), attribute)
    return cls


def _from_entry_points(failures: list[str]) -> Iterator[tuple[PluginKind, type[Any], str | None]]:
    declared = entry_points()  # of all groups at once: each call reads the files of every installed package
    for kind, entry in [(k, e) for k in PluginKind for e in declared.select(group=k.entry_point_group)]:
        try:
            cls = entry.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit(), or the panic of a Rust extension
            log.info("plug-in %s could not be loaded", entry.value, exc_info=True)
            failures.append(f"entry point {entry.value} could not be loaded: {import_fault(error)}")
            continue
        if isinstance(cls, type) and issubclass(cls, kind.base):
            yield kind, cls, _version(kind, cls, entry)
        else:
            failures.append(f"entry point {entry.value} is not a {kind.base.__name__}")


def _from_directories(
    directories: Sequence[str], failures: list[str], roots: set[str]
) -> Iterator[tuple[PluginKind, type[Any], str | None]]:
    for module in modules_in(directories, failures, roots):
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__name__.startswith("_"):
                continue
            root = cls.__module__.partition(".")[0]
            if root != module.__name__:
                if root == other_version_of(module):
                    failures.append(
                        f"plugin.path: {module.__file__} imports {cls.__name__} of another version of {root}: import "
                        f"it relatively (from .module import {cls.__name__})"
                    )
                continue
            for kind in PluginKind:
                if issubclass(cls, kind.base):
                    yield kind, cls, _version(kind, cls)


def _file(cls: type[Any]) -> str:
    return str(getattr(sys.modules.get(cls.__module__), "__file__", cls.__module__))


def _version(kind: PluginKind, cls: type[Any], entry: EntryPoint | None = None) -> str | None:
    """Return the version that a class declares, or else that of the package that it was installed with."""
    declared = getattr(cls, "version", None)
    is_own = declared is not getattr(kind.base, "version", None)
    if not is_own and entry is not None and entry.dist is not None:
        return entry.dist.version
    return declared if isinstance(declared, str) else None
