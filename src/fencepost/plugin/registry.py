"""The registry: names to classes."""

import importlib
import inspect
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from fencepost import __version__
from fencepost.config import ConfigError
from fencepost.plugin.builtin import BUILT_IN, FORMER_NAMES
from fencepost.plugin.directory import modules_in
from fencepost.plugin.kind import PluginKind
from fencepost.plugin.offer import offer_for

log = logging.getLogger(__name__)

_one_at_a_time = threading.Lock()  # a module that another thread is importing looks complete


class PluginDescription(NamedTuple):
    """One line of `GET /connector-plugins`."""

    class_name: str
    type: str
    version: str | None


class PluginRegistry:
    """Finds plug-ins by full class name, by class name alone, or by class name without the suffix of its kind.

    Built-in plug-ins have precedence. Entry points of other packages and the directories of `plugin_path` are searched
    once, when a name is not built in. Thread-safe.
    """

    def __init__(self, plugin_path: Sequence[str] = ()) -> None:
        self._directories = tuple(directory for directory in plugin_path if directory)
        self._found: Mapping[PluginKind, Mapping[str, type[Any]]] | None = None
        self._failures: list[str] = []

    def find(self, kind: PluginKind | str, name: str) -> type[Any]:
        """Return the class of that name. Raises ConfigError, which lists the known ones."""
        kind = PluginKind(kind)
        target = _built_in(kind, name)
        if target is not None:
            return _loaded(target)
        matches = [cls for full, cls in self._third_party()[kind].items() if _answers_to(kind, full, name)]
        if len(matches) == 1:
            return matches[0]
        raise ConfigError(self._ambiguous(kind, name, matches) if matches else self._unknown(kind, name))

    def name_of(self, kind: PluginKind, cls: type[Any]) -> str:
        """Return the full name that `all_plugins` gives the class."""
        for full, target in BUILT_IN[kind].items():
            if target == f"{cls.__module__}:{cls.__qualname__}":
                return full
        return _full_name(cls)

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
                PluginDescription(full, kind.type_of(cls), _version(cls))
                for full, cls in sorted(self._third_party()[kind].items())
            ),
        ]
        return sorted(found, key=lambda one: one.type)

    def failures(self) -> tuple[str, ...]:
        """Return a text for each plug-in that could not be loaded."""
        self._third_party()
        return tuple(self._failures)

    def _third_party(self) -> Mapping[PluginKind, Mapping[str, type[Any]]]:
        with _one_at_a_time:
            return self._found if self._found is not None else self._looked_up()

    def _looked_up(self) -> Mapping[PluginKind, Mapping[str, type[Any]]]:
        found: dict[PluginKind, dict[str, type[Any]]] = {kind: {} for kind in PluginKind}
        failures: list[str] = []
        for kind, cls in (*_from_entry_points(failures), *_from_directories(self._directories, failures)):
            found[kind][_full_name(cls)] = cls
        self._failures = failures
        self._found = found
        return found

    def _names(self, kind: PluginKind) -> str:
        return ", ".join((*sorted(BUILT_IN[kind]), *sorted(self._third_party()[kind])))

    def _unknown(self, kind: PluginKind, name: str) -> str:
        if kind is PluginKind.CONNECTOR:
            text = (
                f"Failed to find any class that implements Connector and which name matches {name}, "
                f"available connectors are: {self._names(kind)}"
            )
        else:
            text = f"Class {name} could not be found. Available: {self._names(kind)}"
        return ". ".join((text, *filter(None, [offer_for(kind, name)]), *self._failures))

    def _ambiguous(self, kind: PluginKind, name: str, matches: Sequence[type[Any]]) -> str:
        return (
            f"More than one {kind.suffix.lower()} matches alias {name}. "
            "Please use full package and class name instead. "
            f"Classes found: {', '.join(_full_name(cls) for cls in matches)}"
        )


def _built_in(kind: PluginKind, name: str) -> str | None:
    name = FORMER_NAMES.get(name, name)
    for full, target in BUILT_IN[kind].items():
        if _answers_to(kind, full, name) or name == target.replace(":", "."):
            return target
    return None


def _answers_to(kind: PluginKind, full: str, name: str) -> bool:
    short = full.rpartition(".")[2]
    return name in (full, short, short.removesuffix(kind.suffix))


def _loaded(target: str) -> type[Any]:
    module, _, attribute = target.partition(":")
    cls: type[Any] = getattr(importlib.import_module(module), attribute)
    return cls


def _from_entry_points(failures: list[str]) -> Iterator[tuple[PluginKind, type[Any]]]:
    for kind in PluginKind:
        for entry in entry_points(group=kind.entry_point_group):
            try:
                cls = entry.load()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # sys.exit(), or the panic of a Rust extension
                log.warning("plug-in %s could not be loaded", entry.value, exc_info=True)
                failures.append(f"entry point {entry.value} could not be loaded: {type(error).__name__}: {error}")
                continue
            if isinstance(cls, type) and issubclass(cls, kind.base):
                yield kind, cls
            else:
                failures.append(f"entry point {entry.value} is not a {kind.base.__name__}")


def _from_directories(directories: Sequence[str], failures: list[str]) -> Iterator[tuple[PluginKind, type[Any]]]:
    for module in modules_in(directories, failures):
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__.partition(".")[0] != module.__name__ or cls.__name__.startswith("_"):
                continue
            for kind in PluginKind:
                if issubclass(cls, kind.base):
                    yield kind, cls


def _full_name(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _version(cls: type[Any]) -> str | None:
    version = getattr(cls, "version", None)
    return version if isinstance(version, str) else None
