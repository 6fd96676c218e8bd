"""The context of a running source task: its configs, its offsets, waiting, and its transactions."""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.api import TransactionContext
from fencepost.hook.hosted_task import TaskPlace
from fencepost.hook.written import Written
from fencepost.task.control import Control
from fencepost.task.delivery.lanes import TransactionSize
from fencepost.task.failure.tolerance import ErrorCounters
from fencepost.task.source.offsets import OffsetBook


class TaskContext:
    """The `SourceTaskContext` of a task in a slot."""

    def __init__(
        self,
        configs: Mapping[str, str],
        book: OffsetBook,
        control: Control,
        transaction: TransactionContext | None,
        *,
        takes_columns: bool = False,
        batches_refusal: str | None = None,
        sizes: TransactionSize | None = None,
        written: Callable[[], Written] | None = None,
    ) -> None:
        self.configs = configs
        self.transaction = transaction
        self.takes_columns = takes_columns
        self.batches_refusal = batches_refusal
        self._written = written
        self._sizes = sizes
        self._book = book
        self._control = control

    def written(self) -> Written | None:
        return None if self._written is None else self._written()

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(partition, Mapping):
            raise TypeError(
                f"context.offset({partition!r}): a source partition is a mapping, the same that records have: "
                f"write {{'name': {partition!r}}}"
            )
        return self._book.offset(partition)

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return self._book.all_committed()

    @property
    def transaction_bytes(self) -> int | None:
        return None if self._sizes is None else self._sizes.limit_bytes

    @property
    def transaction_timeout_s(self) -> float | None:
        return None if self._sizes is None else self._sizes.timeout_s

    @property
    def is_stopping(self) -> bool:
        return self._control.should_yield

    def wait(self, timeout_s: float) -> bool:
        self._control.wait(timeout_s)
        return self.is_stopping

    def wake(self) -> None:
        self._control.wake()


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
