"""The registry: names to classes."""

import importlib
import inspect
import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from fencepost import __version__
from fencepost.config import ConfigError
from fencepost.config.version import UNDEFINED, VersionRequirement, in_order, requirement_of
from fencepost.plugin.builtin import BUILT_IN, FORMER_NAMES
from fencepost.plugin.directory import modules_in, other_version_of, public_name
from fencepost.plugin.kind import PluginKind
from fencepost.plugin.mistake import class_fault, import_fault, unknown
from fencepost.plugin.offer import offer_for

log = logging.getLogger(__name__)

_one_at_a_time = threading.Lock()  # a module that another thread is importing looks complete


class PluginDescription(NamedTuple):
    """One line of `GET /connector-plugins`."""

    class_name: str
    type: str
    version: str | None


class PluginVersionError(ConfigError):
    """The plug-in is installed, but not in a version that the config allows."""


class _Installed(NamedTuple):
    """A version of a plug-in; `target` is the module and the name of a built-in class, which may not be loaded yet."""

    version: str | None
    cls: type[Any] | None = None
    target: str = ""

    def loaded(self) -> type[Any]:
        return _loaded(self.target) if self.cls is None else self.cls


class PluginRegistry:
    """Finds plug-ins by full class name, by class name alone, or by class name without the suffix of its kind.

    Built-in plug-ins have precedence. Entry points of other packages and the directories of `plugin_path` are searched
    once, when a name is not built in. If several versions of a class are installed, the newest that a requirement
    allows is found (KIP-891). Thread-safe.
    """

    def __init__(self, plugin_path: Sequence[str] = (), *, connectors: Sequence[type[Any]] = ()) -> None:
        """`connectors`: classes that are known, too, wherever they come from."""
        self._directories = tuple(directory for directory in plugin_path if directory)
        self._connectors = tuple(connectors)
        self._found: _Found | None = None
        self._failures: list[str] = []

    def find(self, kind: PluginKind | str, name: str, version: str | None = None) -> type[Any]:
        """Return the class of that name, in the newest version that `version` allows.

        Raises:
            PluginVersionError: It is installed in other versions only, which are listed.
            ConfigError: There is no such class, or it is a connector that cannot run. Or `version` cannot be read.
        """
        kind = PluginKind(kind)
        full, installed = self._installed(kind, name)
        try:
            requirement = requirement_of(version)
        except ValueError as error:
            raise ConfigError(f"{version} is not a requirement on the version of {full}: {error}") from None
        allowed = [one for one in installed if requirement is None or requirement.allows(one.version)]
        if not allowed and requirement is not None:
            raise _no_version(full, requirement, installed)
        fault = None if allowed[-1].cls is None else class_fault(allowed[-1].cls)
        if fault is not None:
            raise ConfigError(fault)
        return allowed[-1].loaded()

    def versions(self, kind: PluginKind | str, name: str) -> tuple[str, ...]:
        """Return the installed versions of a class, oldest first; none if there is no such class."""
        try:
            return tuple(one.version or UNDEFINED for one in self._installed(PluginKind(kind), name)[1])
        except ConfigError:
            return ()

    def version_of(self, kind: PluginKind | str, cls: type[Any]) -> str:
        """Return the version of a class that `find` has returned."""
        kind = PluginKind(kind)
        installed = self._installed(kind, self.name_of(kind, cls))[1]
        return next((one.version for one in installed if one.cls is cls), installed[-1].version) or UNDEFINED

    def names(self, kind: PluginKind | str) -> list[str]:
        """Return the full names of all classes of a kind."""
        kind = PluginKind(kind)
        return sorted({*BUILT_IN[kind], *self._third_party()[kind]})

    def name_of(self, kind: PluginKind, cls: type[Any]) -> str:
        """Return the full name that `all_plugins` gives the class."""
        for full, target in BUILT_IN[kind].items():
            if target == f"{cls.__module__}:{cls.__qualname__}":
                return full
        return public_name(cls)

    def _installed(self, kind: PluginKind, name: str) -> "tuple[str, Sequence[_Installed]]":
        """Return the full name and the versions, oldest first. Raises ConfigError if there is no such class."""
        built_in = _built_in(kind, name)
        if built_in is not None:
            return built_in, [_Installed(__version__, target=BUILT_IN[kind][built_in])]
        found = self._third_party()[kind]
        matches = [full for full in found if _answers_to(kind, full, name)]
        if len(matches) != 1:
            raise ConfigError(self._ambiguous(kind, name, matches) if matches else self._unknown(kind, name))
        return matches[0], found[matches[0]]

    def all_plugins(self) -> list[PluginDescription]:
        """Return all that are listed: connectors, transforms, predicates, converters, header converters."""
        return [description for kind in PluginKind if kind.is_listed for description in self._descriptions(kind)]

    def _descriptions(self, kind: PluginKind) -> list[PluginDescription]:
        """Return the built-in ones before the others, and sinks before sources, as Kafka Connect does."""
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
        ]
        return sorted(found, key=lambda one: one.type)

    def failures(self) -> tuple[str, ...]:
        """Return a text for each plug-in that could not be loaded."""
        self._third_party()
        return tuple(self._failures)

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
            for installed in each.values():
                _sort(installed)
        self._failures = failures
        self._found = found
        return found

    def _unknown(self, kind: PluginKind, name: str) -> str:
        others = [other for other in PluginKind if _built_in(other, name) is not None]
        advice = f"{name} is a {others[0].replace('_', ' ')}, not a {kind.replace('_', ' ')}" if others else None
        return unknown(kind, name, self.names(kind), self._failures, advice or offer_for(kind, name))

    def _ambiguous(self, kind: PluginKind, name: str, matches: Sequence[str]) -> str:
        return (
            f"More than one {kind.suffix.lower()} matches alias {name}. "
            "Please use full package and class name instead. "
            f"Classes found: {', '.join(matches)}"
        )


_Found = dict[PluginKind, dict[str, list[_Installed]]]


def _no_version(full: str, requirement: VersionRequirement, installed: Sequence[_Installed]) -> PluginVersionError:
    versions = [one.version or UNDEFINED for one in installed]
    return PluginVersionError(
        f"Plugin {full} not found that matches the version range {requirement}, available versions: "
        f"[{', '.join(versions)}]. Ask for one of these, or for none to get the newest"
    )


def _sort(installed: list[_Installed]) -> None:
    """Sort versions, oldest first; what has no version comes before."""
    order = in_order({one.version for one in installed if one.version is not None})
    installed.sort(key=lambda one: -1 if one.version is None else order.index(one.version))


def _built_in(kind: PluginKind, name: str) -> str | None:
    """Return the full name of a built-in class."""
    name = FORMER_NAMES.get(name, name)
    for full, target in BUILT_IN[kind].items():
        if _answers_to(kind, full, name) or name == target.replace(":", "."):
            return full
    return None


def _answers_to(kind: PluginKind, full: str, name: str) -> bool:
    short = full.rpartition(".")[2]
    return name in (full, short, short.removesuffix(kind.suffix))


def _loaded(target: str) -> type[Any]:
    module, _, attribute = target.partition(":")
    cls: type[Any] = getattr(importlib.import_module(module), attribute)
    return cls


def _from_entry_points(failures: list[str]) -> Iterator[tuple[PluginKind, type[Any], str | None]]:
    for kind in PluginKind:
        for entry in entry_points(group=kind.entry_point_group):
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
