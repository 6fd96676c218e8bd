"""What a running task of a source can use whose code runs in another process."""

from typing import Any

from fencepost.api.hosted_task import TaskPlace
from fencepost.task.failure.tolerance import ErrorCounters
from fencepost.task.source.context import TaskContext


class HostedContext(TaskContext):
    """The `HostedTaskContext` of a task in a slot."""

    def __init__(self, place: TaskPlace, errors: ErrorCounters, *context: Any, **more: Any) -> None:
        """`context` and `more` are the arguments of a `TaskContext`."""
        super().__init__(*context, **more)
        self.place = place
        self._errors = errors

    def count_retries(self, count: int) -> None:
        self._errors.retries += count

    @property
    def is_to_stop(self) -> bool:
        return self._control.is_stopping
