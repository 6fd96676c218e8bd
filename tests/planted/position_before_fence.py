"""A task asks for its offsets first, and only then takes its transactional id (E3)."""

from typing import Any

from fencepost.task.life.producing_life import ProducingLife
from fencepost.task.source.runner import TaskRunner
from planted import replace


def _open(self: TaskRunner) -> Any:
    self._too_early = admit(self)  # type: ignore[attr-defined]
    return open_delivery(self)


def _admit(self: ProducingLife) -> Any:
    return self.__dict__.pop("_too_early", None) or admit(self)


open_delivery = replace(TaskRunner, "_open_delivery", _open)
admit = replace(ProducingLife, "_admit", _admit)
