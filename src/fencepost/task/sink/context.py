"""What a running task of a sink can use: its configs, its assignment, and its requests."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from fencepost.api import ErrantRecordReporter, FencingToken
from fencepost.record import TopicPartition
from fencepost.task.control import Control
from fencepost.task.life.reader_status import GroupReader, Offsets


class SinkInput(GroupReader, Protocol):
    """Where records come from and positions are kept, such as `GroupInput`."""

    @property
    def generation(self) -> int | None: ...

    @property
    def edges(self) -> Callable[[Collection[TopicPartition]], Mapping[TopicPartition, tuple[int, int]]]: ...

    @property
    def read_ahead(self) -> Callable[[int], None]: ...

    def commit(self, offsets: Offsets) -> Offsets: ...

    def stored(self, places: Collection[TopicPartition] | None = None) -> Offsets: ...


class SinkContext:
    """The `SinkTaskContext` of a task in a slot. It stores requests; the loop carries them out after the call."""

    def __init__(self, configs: Mapping[str, str], control: Control, task_generation: int) -> None:
        self.configs = configs
        self.reading: SinkInput | None = None
        """The group's member, once there is one."""
        self.rewinds: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.timeout_ms: int | None = None
        self.is_commit_requested = False
        self.errant_record_reporter: ErrantRecordReporter | None = None
        self._control = control
        self._task_generation = task_generation

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset() if self.reading is None else self.reading.assignment

    @property
    def group_metadata(self) -> Any:
        return None if self.reading is None else self.reading.metadata

    @property
    def fencing_token(self) -> FencingToken | None:
        generation = None if self.reading is None else self.reading.generation
        return None if generation is None else FencingToken(self._task_generation, generation)

    @property
    def is_stopping(self) -> bool:
        return self._control.is_stopping

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.rewinds.update((TopicPartition(*place), offset) for place, offset in offsets.items())

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.seek(offsets)

    def timeout(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused.update(TopicPartition(*place) for place in partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.paused.difference_update(partitions)

    def request_commit(self) -> None:
        self.is_commit_requested = True

    def take_rewinds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Take the offsets from which some partitions are to continue."""
        return {place: self.rewinds.pop(place) for place in list(self.rewinds) if place in partitions}

    def take_timeout_s(self) -> float | None:
        """Take the requested time until the next try."""
        timeout_ms, self.timeout_ms = self.timeout_ms, None
        return None if timeout_ms is None else timeout_ms / 1000
