"""The worker's end of the copies of tasks' offsets; it accepts them only from starts that were not replaced."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

from fencepost.storage.ids import TaskId
from fencepost.storage.offset_copies import OffsetCopies, OffsetCopy
from fencepost.storage.offset_view import OffsetTopics
from fencepost.task.channel.message import TaskCopies
from fencepost.worker.channel import RefusedError
from fencepost.worker.supervision.task.handle import TaskHandle

_WRITE_S = 20.0


class OffsetCopying:
    """Writes copies under the keys that the worker's topic has for them. Called on threads of the channel."""

    def __init__(
        self, topics: OffsetTopics, copies: OffsetCopies, starts_of: Callable[[TaskId], Iterable[TaskHandle]]
    ) -> None:
        """`starts_of` returns a task's starts that may be running here; while one is stopping, no other begins."""
        self._topics = topics
        self._copies = copies
        self._starts_of = starts_of

    def handle(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer the channel's `/task/copy`."""
        message = TaskCopies.from_json(body)
        self.copy(TaskId(message.connector, message.task), message.incarnation, message.copies)
        return {}

    def copy(self, task: TaskId, incarnation: str, records: Sequence[OffsetCopy]) -> None:
        """Return once all are acknowledged. Raises RefusedError for a start that was superseded (E7)."""
        if all(start.incarnation != incarnation for start in self._starts_of(task)):
            raise RefusedError(f"a newer start of task {task} has replaced this one")
        self._copies.write([self._spelled(task.connector, one) for one in records], _WRITE_S)

    def _spelled(self, connector: str, record: OffsetCopy) -> OffsetCopy:
        _, partition = orjson.loads(record.key)
        return record._replace(key=self._topics.shared_key(connector, partition))
