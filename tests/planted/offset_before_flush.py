"""A sink's offsets are committed first, and only then the task is asked to flush (E13)."""

from typing import Any

from fencepost.task.sink.loop import SinkLoop
from planted import replace


def _commit(self: SinkLoop, offsets: dict[Any, int], *, is_last: bool) -> None:
    self._positions.stored.update(self._input.commit(offsets))
    known(self, offsets, is_last=is_last)


known = replace(SinkLoop, "_commit", _commit)
