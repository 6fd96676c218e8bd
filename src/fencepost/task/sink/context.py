"""The context of a running sink task: its configs, its assignment, its requests, and reports of records."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from fencepost.api import ErrantRecordReporter, FencingToken, SinkRecord, SinkTask
from fencepost.config.reference import given_values
from fencepost.hook.hosted_task import ForeignRecordError, GroupMember
from fencepost.kafka.value.position import committer_of
from fencepost.record import TopicPartition
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.conversion.plugins import place_of
from fencepost.task.failure.dead_letter import class_of
from fencepost.task.failure.dead_letter_producer import DeadLetters
from fencepost.task.failure.tolerance import ErrorCounters
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.sink.reader import GroupReader, Offsets


class LogFacts(Protocol):
    """Asks brokers about logs, such as `LogEdges`."""

    def __call__(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]: ...

    def topic_id(self, topic: str) -> str: ...


class SinkInput(GroupReader, Protocol):
    """Where records come from and positions are kept, such as `GroupInput`."""

    @property
    def generation(self) -> int | None: ...

    @property
    def edges(self) -> LogFacts: ...

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
        self.resets: set[TopicPartition] = set()
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

    def topic_id(self, topic: str) -> str:
        return "" if self.reading is None else self.reading.edges.topic_id(topic)

    def take_resets(self) -> frozenset[TopicPartition]:
        resets, self.resets = frozenset(self.resets), set()
        return resets & self.assignment

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


_PUT = "TASK_PUT"


class Reporter:
    """The `ErrantRecordReporter` of a task, and the receiver of failures from its error handling."""

    def __init__(self, processor: SinkProcessor, dead_letters: DeadLetters | None) -> None:
        self._processor = processor
        self._dead_letters = dead_letters

    def report(self, record: SinkRecord, error: Exception) -> "Future[None]":
        written = self._processor.tolerance.failed(_PUT, error, self._read(record))
        assert isinstance(written, Future)
        return written

    def left_out(self, record: SinkRecord, stage: str, error: Exception) -> None:
        """Report a record that another process could not convert, or transform, and has dropped."""
        self._processor.tolerance.failed(stage, error, self._read(record))

    def _read(self, record: SinkRecord) -> SinkRecord:
        """Return the record for a dead letter; without them it is not converted, which may register a schema."""
        return record if self._dead_letters is None else self._processor.raw_of(record)

    def tell(self, stage: str, error: Exception, record: SinkRecord) -> "Future[None]":
        """Pass on a record whose key, value and headers are bytes. The future is done once it is safe."""
        if self._dead_letters is None:
            done: Future[None] = Future()
            done.set_result(None)
            return done
        return self._dead_letters.add(record, stage, class_of(self._processor, stage, error), error)


_LAST_LETTERS_S = 2.0  # the last commit has to fit into the time for a stop, too


class HostedContext(SinkContext):
    """The `HostedSinkContext` of a task in a slot."""

    reporter: Reporter
    next_offsets: Offsets
    """The next offset for `put` of each partition of the assignment."""

    def __init__(self, spec: TaskSpec, control: Control, errors: ErrorCounters) -> None:
        """`reporter` and `next_offsets` have to be set before the task is started."""
        super().__init__(given_values(spec.task_config), control, spec.generation)
        self.place = place_of(spec)
        self.most_records = spec.input.most_records or SinkTask.most_records
        self.last_letters_s = min(spec.commits.offset_flush_timeout_ms / 1000, _LAST_LETTERS_S)
        self._errors = errors

    @property
    def identity(self) -> GroupMember | None:
        if self.reading is None or self.reading.generation is None:
            return None
        member = committer_of(self.reading.metadata)
        return GroupMember(member.group_id, member.generation, member.member_id)

    def committed(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {} if self.reading is None else self.reading.stored(places)

    def positions(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {place: self.next_offsets[place] for place in places if place in self.next_offsets}

    def read_ahead(self, most: int) -> None:
        if self.reading is not None:
            self.reading.read_ahead(most)

    def edges(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        return {} if self.reading is None else self.reading.edges(places)

    def left_out(self, record: SinkRecord, stage: str, error: ForeignRecordError) -> None:
        self.reporter.left_out(record, stage, error)

    def count_retries(self, count: int) -> None:
        self._errors.retries += count
