"""A sink's offsets are committed first, and only then the task is asked to flush (E13)."""

from typing import Any

from fencepost.task.sink.commits import SinkCommits
from planted import replace


def _flush(self: SinkCommits, offsets: dict[Any, int], *, is_last: bool) -> Any:
    assert self.context.reading is not None
    self.positions.stored.update(self.context.reading.commit(offsets))
    return known(self, offsets, is_last=is_last)


known = replace(SinkCommits, "flush", _flush)
