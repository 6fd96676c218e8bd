"""The classes that the worker's file leaves out."""

from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.config.class_name import answers_to
from fencepost.plugin.kind import PluginKind


@dataclass(frozen=True)
class Disabled:
    """`names`: of classes, in any form that a config may use."""

    names: tuple[str, ...] = ()

    def has(self, kind: PluginKind, full: str) -> bool:
        return any(answers_to(full, name, kind.suffix) for name in self.names)

    def others(self, kind: PluginKind, every: Iterable[str]) -> list[str]:
        """Return the full names that are not disabled, sorted."""
        return sorted(full for full in set(every) if not self.has(kind, full))
