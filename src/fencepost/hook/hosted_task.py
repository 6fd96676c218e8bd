"""Hooks for tasks whose code runs in another process, such as Java's. They are not part of the contract for authors.

`fencepost.api` does not export them, and they may change at any time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Protocol, TypeGuard, runtime_checkable

from fencepost.api.errors import ConnectError, FatalError, RetriableError
from fencepost.api.sink import SinkTask, SinkTaskContext
from fencepost.api.source import Form, RecordMetadata, SourceOffset, SourcePartition, SourceTask, SourceTaskContext
from fencepost.config import Setting
from fencepost.record import Batch, Repeated, SinkBatch, SinkRecord, SourceRecord, TopicPartition

TASK_CLASS = "task.class"
"""The key of a task's config with the name of the task's class, as Kafka Connect stores it."""


PLUGIN_FIGURES = "plugins"
"""The kind of the figures that plug-ins in another process have registered: name, tags as text, value."""


@dataclass(frozen=True)
class TaskPlace:
    """Which task it is, and the effective config of its connector: with the worker's converters, if it names none."""

    connector: str
    task: int
    incarnation: str
    connector_config: Mapping[str, str] = field(repr=False)


@runtime_checkable
class NamesTaskClass(Protocol):
    """A connector whose tasks have a class of another language."""

    @property
    def task_class_name(self) -> str: ...


@runtime_checkable
class HostedConnector(Protocol):
    """A connector whose code runs in another process, or asks another one for what it measures."""

    def figures(self) -> Sequence[Sequence[str | float]]:
        """Return the newest metrics that it has registered: name, tags as text, value. Any thread; does not wait."""

    def end_calls(self) -> None:
        """Let a call of the connector end soon, as the connector is to stop. Any thread; does not wait."""


@runtime_checkable
class ChoosesTaskClass(Protocol):
    """A connector class whose tasks are of a class that depends on their config."""

    @classmethod
    def task_class_for(cls, properties: Mapping[str, str]) -> type[SourceTask]:
        """Return the class of a task with these properties. Raises HostLostError."""


@runtime_checkable
class KnowsSettings(Protocol):
    """A class whose settings have to be asked for, which takes a second or more the first time."""

    def known_settings(self, *, asks: bool = True) -> Mapping[str, Setting] | None:
        """Return the settings if they are known; if not, None, and they are asked for in the background if `asks`."""


class HostedTaskContext(SourceTaskContext, Protocol):
    """What the runtime offers a hosted task."""

    @property
    def place(self) -> TaskPlace: ...

    def count_retries(self, count: int) -> None:
        """Count operations on records that the other process tried again."""

    @property
    def is_to_stop(self) -> bool:
        """Say whether the task is to stop. `is_stopping` is also true if it is only to pause."""


class HostLostError(ConnectError):
    """The process that ran a task's code is gone; whatever the task had polled and not committed is polled again.

    This is no failure of the task: it starts again, as after the loss of its slot.
    """

    def __init__(self, text: str, companions: frozenset[str] = frozenset(), *, is_crash: bool = True) -> None:
        """Say how the process has ended.

        Args:
            text: How, in a sentence.
            companions: The incarnations of all tasks that it ran.
            is_crash: Whether one of these may have ended it; False if it was ended on purpose.
        """
        super().__init__(text)
        self.companions = companions
        self.is_crash = is_crash


class InOtherProcess:
    """What any thread may ask of a task whose code runs in another process: in a host of Java's, or in Spark."""

    def figures(self) -> Mapping[str, Sequence[Sequence[str | float]]]:
        """Return metrics, as `MirrorTask.figures` does. Called by any thread, also before `start`."""
        return {}

    def waits_since(self) -> float | None:
        """Return since when a call of the other process has not returned, on the monotonic clock, though the task's
        thread goes on. None: there is none. Called by any thread, also before `start`."""
        return None

    def waits_for_kafka(self) -> bool:
        """Say whether that call is known to wait for Kafka."""
        return False

    def stack(self) -> str:
        """Return where the other process is for this task, innermost call first; empty if that is not known.

        Called by a thread that may wait for the answer; it may never come."""
        return ""

    def abandon(self) -> None:
        """End the other process at once: the task has not stopped in time. Called by any thread."""


class HostedTask(InOtherProcess, SourceTask):
    """A task whose `poll` returns what another process has transformed and converted already, as columns of bytes.

    The transforms, predicates and converters of its config are not applied here. Its batches have no offsets of single
    records, only `Batch.ends`, so a batch is committed as a whole or not at all. One with records that were
    dropped is a `HostedBatch`.
    """

    context: HostedTaskContext

    polls_ahead: ClassVar[bool | None] = False

    asks_places: ClassVar[bool] = False
    """Whether `written` is to say where each record is. That costs some microseconds a record."""

    def written(self, places: Sequence[RecordMetadata | None] | None) -> None:
        """Called before `commit` for each batch that `poll` returned, in order, once its offsets are committed.

        `places` says where the record of each row is: None for one that was dropped, and an empty sequence if the
        transaction was aborted, and only offsets are committed. None in place of them says that all were written, to a
        task that does not ask.
        """

    @classmethod
    def form(cls, config: Any) -> Form:
        return Form.COLUMNS


class GroupMember(NamedTuple):
    """The membership under which a sink task owns its partitions, for tasks that commit for their group."""

    group: str
    generation: int
    member: str


class ForeignRecordError(ConnectError):
    """What code in another process has thrown for one record. `of` makes one that has the name of its class."""

    operation: str = ""
    """The name of the class whose code failed."""
    trace: str | None = None
    """The stack in the other process, if it is known."""

    @classmethod
    def of(cls, class_name: str, message: str | None, operation: str, trace: str | None = None) -> "ForeignRecordError":
        package, _, name = class_name.rpartition(".")
        named = type(name, (cls,), {"__module__": package, "__qualname__": name})
        made: ForeignRecordError = named(message or class_name)
        made.operation = operation
        made.trace = trace
        return made


class ForeignRetriableError(ForeignRecordError, RetriableError):
    """The same, where the other process may be asked again."""


class LeftOut(NamedTuple):
    """A record that another process could not transform or convert and has dropped, as `errors.tolerance` says."""

    row: int
    """Its row in the batch, which has the key, value and headers of its dead letter."""
    stage: str
    error: ForeignRecordError
    offset: SourceOffset | None


@dataclass(frozen=True, slots=True)
class HostedBatch(Batch):
    """A batch some rows of which are no records to be sent: they were left out."""

    left_out: Sequence[LeftOut] = field(kw_only=True)

    @classmethod
    def of(cls, batch: Batch, left_out: Sequence[LeftOut]) -> "HostedBatch":
        if isinstance(batch, HostedBatch):
            return replace(batch, left_out=left_out)
        return cls(**{each.name: getattr(batch, each.name) for each in fields(batch)}, left_out=left_out)

    def slice(self, start: int, stop: int) -> Batch:
        """Return the whole batch. Raises ValueError for a part: it is committed as a whole or not at all."""
        if (start, stop) != (0, len(self)):
            raise ValueError("a batch of another process is not divided")
        return self


@dataclass(frozen=True, slots=True)
class RecordBatch(HostedBatch):
    """What `poll` of a hosted task returned whose chain is mixed: records with schemas of their own, for converters."""

    records_of_rows: Sequence[SourceRecord] = field(kw_only=True)

    @classmethod
    def holding(
        cls, records: Sequence[Any], ends: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> "RecordBatch":
        return cls(
            [record.topic for record in records],
            [record.value for record in records],
            [record.source_partition for record in records],
            Repeated(None, len(records)),
            ends=ends,
            left_out=(),
            records_of_rows=records,
        )

    def record(self, index: int) -> SourceRecord:
        return self.records_of_rows[index]


class HostedSinkContext(SinkTaskContext, Protocol):
    """What the runtime offers a hosted sink task."""

    @property
    def place(self) -> TaskPlace: ...

    @property
    def identity(self) -> GroupMember | None:
        """Return the membership as of the last assignment; None before the first."""

    def committed(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the group's committed offsets, those of other producers' transactions included.

        Partitions without one are left out. Raises a failure to read them.
        """

    def positions(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the next offsets for `put`, of partitions of the assignment."""

    def edges(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return where the logs of partitions begin and end, for its isolation level. Raises a failure to read that."""

    def read_ahead(self, most: int) -> None:
        """Decode records that have arrived, for the next `put`, while the other process is busy with this one.

        At most about `most` of them wait. Does not wait for records, and raises nothing.
        """

    def left_out(self, record: SinkRecord, stage: str, error: ForeignRecordError) -> None:
        """Count, log and report a record, of bytes, that the other process could not convert and has dropped.

        No offset beyond the record is committed before its dead letter is durable. Raises what the report raises.
        """

    def count_retries(self, count: int) -> None:
        """Count operations on records that the other process tried again."""

    @property
    def most_records(self) -> int:
        """Return how many records the other process's `put` gets at most (`max.poll.records`)."""

    @property
    def last_letters_s(self) -> float:
        """Return for how many seconds a task that is to stop may wait for dead letters in the middle of its calls."""


class Put(NamedTuple):
    """One call of the other process's `put`."""

    rows: int
    removed: int = 0
    """How many of the rows it was not given, as they were filtered or dropped."""
    took_s: float = 0.0


class Progress(NamedTuple):
    """How far a `put` of a hosted task has come in its batch."""

    puts: Sequence[Put] = ()
    """The calls that are over and done with, in order, from the first row on."""
    refused: SinkBatch | None = None
    """If `put` has raised: the rows after those. On a RetriableError this object, or less of it, is to be put again."""

    @property
    def rows(self) -> int:
        """Return how many rows are done with."""
        return sum(put.rows for put in self.puts)


class RefusedReportError(FatalError):
    """A record that a sink task has reported in its `pre_commit` can neither be a dead letter nor be tolerated."""


class HostedSink(InOtherProcess, SinkTask):
    """A task that gets records as bytes, which another process converts and transforms.

    The transforms, predicates and converters of its config are not applied here.

    `put` sets `progress`, also when it raises. If it returns before all rows are done with, because the other process
    has asked for something that comes first or is slow, those that are left have to be read again.
    """

    context: HostedSinkContext

    batches: int = 1
    """How many batches of `max.poll.records` the next `put` may be given at once: they are put one after the other."""
    progress: Progress = Progress()
    """How far the last `put` has come."""

    @staticmethod
    def require_form(record: SinkRecord) -> None:
        """Raise RecordError if a record of a mixed chain has a value that cannot be sent to the other process."""


def converts_itself(task: object) -> TypeGuard[type[HostedTask | HostedSink]]:
    """Say whether a class of tasks has its records converted and transformed in another process."""
    return isinstance(task, type) and issubclass(task, HostedTask | HostedSink)
