"""A source task in a host."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fencepost.api import RecordMetadata
from fencepost.builtin.java.client.columns import polled_of
from fencepost.builtin.java.client.crossing import Crossing
from fencepost.builtin.java.client.events import Events
from fencepost.builtin.java.client.line import Line
from fencepost.builtin.java.client.session import TaskClient
from fencepost.builtin.java.port import CommittedOffsets, Polled


class SourceTaskClient(TaskClient):
    """Implements `HostedSourceTask`."""

    def __init__(self, line: Line, interrupt: Callable[[int], None], events: Events) -> None:
        super().__init__(line, interrupt, events)
        self._has_commit: bool = line.opened["callbacks"]["commits"]
        self._crossing = Crossing()
        self._committed: deque[Any] = deque()  # what the task's offset reader does not know yet

    def poll(self, max_bytes: int | None = None) -> Polled | None:
        request: dict[str, Any] = {"op": "poll", "committed": self._take_committed()}
        if max_bytes is not None:
            request["max_bytes"] = max_bytes
        return polled_of(self._line.ask(request), self._crossing)

    def commit_records(self, number: int, metadata: Sequence[RecordMetadata | None] | None) -> None:
        listed = None if metadata is None else [None if each is None else tuple(each) for each in metadata]
        self._line.result("commit_records", number=number, metadata=listed)

    def commit(self, offsets: CommittedOffsets) -> None:
        self._committed += listed(offsets)
        if self._has_commit:
            self._line.result("commit", committed=self._take_committed())

    def update_offsets(self, offsets: CommittedOffsets) -> CommittedOffsets:
        found: list[Any] = self._line.result("update_offsets", offsets=listed(offsets))
        return [(partition, offset) for partition, offset in found]

    def _take_committed(self) -> list[Any]:
        return [self._committed.popleft() for _ in range(len(self._committed))]  # others may be added meanwhile


def listed(offsets: CommittedOffsets) -> list[Any]:
    """Return offsets as JSON has them."""
    return [(dict(partition), None if offset is None else dict(offset)) for partition, offset in offsets]
