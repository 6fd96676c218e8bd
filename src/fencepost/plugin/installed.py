"""Plug-ins that are installed: their versions with the order of these, and their descriptions, from their
docstrings.
"""

import inspect
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from fencepost.config import ConfigError
from fencepost.config.version import UNDEFINED, VersionRequirement, in_order

_SENTENCE = re.compile(r"(.+?[.!?])(\s|$)", re.DOTALL)


def about(plugin: type[Any]) -> str:
    """Return the class's own docstring as paragraphs, without examples; nothing if it has none."""
    paragraphs = inspect.cleandoc(vars(plugin).get("__doc__") or "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs if not each.lstrip().startswith(">>>"))


def summary(plugin: type[Any]) -> str:
    """Return the first sentence of `about`, as plain text."""
    text = about(plugin).replace("`", "")
    found = _SENTENCE.match(text)
    return text if found is None else found[1]


class PluginDescription(NamedTuple):
    """One line of `GET /connector-plugins`."""

    class_name: str
    type: str
    version: str | None


class PluginVersionError(ConfigError):
    """The plug-in is installed, but not in a version that the config allows."""


class VersionUnknownError(ConfigError):
    """The version of an installed plug-in cannot be learned now, and which one is meant depends on it.

    `some` is one of its versions, for what all of them have in common, such as the type.
    """

    def __init__(self, text: str, some: type[Any]) -> None:
        super().__init__(text)
        self.some = some


class Installed(Protocol):
    """A version of a plug-in."""

    @property
    def version(self) -> str | None:
        """Return the version; None if it has none. Raises VersionUnknownError."""

    @property
    def cls(self) -> type[Any] | None:
        """Return the class; None if it is a built-in one, which may not be loaded yet."""

    def loaded(self) -> type[Any]: ...


T = TypeVar("T", bound=Installed)


def no_version(full: str, requirement: VersionRequirement, installed: Sequence[Installed]) -> PluginVersionError:
    versions = [one.version or UNDEFINED for one in installed]
    return PluginVersionError(
        f"Plugin {full} not found that matches the version range {requirement}, available versions: "
        f"[{', '.join(versions)}]. Ask for one of these, or for none to get the newest"
    )


def oldest_first(installed: Sequence[T]) -> list[T]:
    """Return versions, oldest first; what has no version comes before. A single one is not asked for its version."""
    if len(installed) == 1:
        return [*installed]
    order = in_order({one.version for one in installed if one.version is not None})
    return sorted(installed, key=lambda one: -1 if one.version is None else order.index(one.version))
