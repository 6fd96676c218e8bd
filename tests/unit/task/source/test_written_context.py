"""What a task is told about the records in its topics."""

from typing import Any

from fencepost.task.source.loop import TaskContext


class Look:
    """Counts one record, once."""

    def __init__(self) -> None:
        self._left = [True]

    def has(self, *_: Any) -> bool:
        return bool(self._left) and self._left.pop()


def test_each_look_of_a_task_counts_written_records_by_itself() -> None:
    """What an aborted transaction had counted would be written twice."""
    nothing: Any = None
    context = TaskContext({}, nothing, nothing, None, written=Look)
    looks = [context.written(), context.written()]
    found = [each.has(nothing, nothing) for each in looks if each is not None for _ in range(2)]
    assert found == [True, False, True, False]
