"""A task asks for its offsets first, and only then takes its transactional id (E3)."""

from typing import Any

from fencepost.task.source.runner import SourceRunner
from fencepost.task.start.producing import ProducingRunner
from planted import replace


def _open(self: SourceRunner) -> Any:
    self._too_early = admit(self)  # type: ignore[attr-defined]
    return open_delivery(self)


def _admit(self: ProducingRunner) -> Any:
    return self.__dict__.pop("_too_early", None) or admit(self)


open_delivery = replace(SourceRunner, "_open_delivery", _open)
admit = replace(ProducingRunner, "_admit", _admit)
