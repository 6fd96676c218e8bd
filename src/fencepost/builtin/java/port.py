"""The port of the host: what validation, connectors and tasks need of Java plug-ins.

Rules for all calls:

- An object (a connector, a task) has a thread of its own in the host, in which its calls run in order. Python calls it
  from one thread at a time. Only `interrupt` of a task, and `close`, `kill` of a host, may be called from any thread.
- Every call may raise `HostEndedError` (start a new host), `JavaError` (the plug-in has thrown), and `HostTimeoutError`
  if it has a time limit. `poll` of a source, `task_configs` and `look_up` may also raise `JavaRetriableError`.
- Configs are given as the plug-in is to see them: references to secrets are resolved. They go over a socket, never on a
  command line, and are in no text of an error or a log unless the plug-in puts them there.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from fencepost.api import ConnectorContext, ExactlyOnceSupport, RecordMetadata
from fencepost.api.hosted_task import GroupMember as GroupMember
from fencepost.api.hosted_task import Put as Put
from fencepost.api.source import SourceOffset, SourcePartition
from fencepost.builtin.java.error import JavaError, JavaRetriableError
from fencepost.record import Batch, SinkBatch, SinkRecord, TopicPartition

if TYPE_CHECKING:
    from fencepost.builtin.java.chain_port import ChainStart, HostedSteps

CommittedOffsets = Sequence[tuple[SourcePartition, SourceOffset | None]]
"""Source partitions with their offsets; None: there is none, or it is removed."""

Act = Callable[[], None]

Figures = Sequence[Sequence[str | float]]
"""Metrics that plug-ins have registered (KIP-877): the name, the tags as text, and the value of each."""


class Location(NamedTuple):
    """One plug-in of `plugin.path`: its classes share a class loader, which looks in it before it asks Kafka's."""

    path: str
    archives: tuple[str, ...]
    """Its jars and directories of classes, in the order in which they are searched."""


class JavaClass(NamedTuple):
    """A class and where it is from. `location` is None for the classes of Kafka Connect's own runtime."""

    name: str
    location: Location | None = None


Classes = Mapping[str, JavaClass]
"""What the class names in a config mean: the text of a config value (a class name, or an alias as Kafka Connect forms
them) to the class. Names that are missing are looked up in the connector's own location, then in Kafka's runtime."""


class Callbacks(NamedTuple):
    """Which methods of a source task's class are its own, so that it is worth calling them."""

    records: bool
    """`commitRecord`"""
    places: bool
    """Whether `commitRecord` reads its second argument, which says where the record is: to find out costs time."""
    commits: bool
    """`commit`"""
    updates: bool
    """`updateOffsets` of KIP-910, which Kafka Connect's own class does not have."""


@dataclass(frozen=True)
class Description:
    """What only the class itself says."""

    kinds: tuple[str, ...]
    """Of the values of `JavaKind`: some classes are both of the converters."""
    version: str
    """What `version()` returns; `undefined` if the class does not have one, as in Kafka Connect."""
    callbacks: Callbacks | None = None
    """For a class of source tasks."""


@dataclass(frozen=True)
class HostOptions:
    """How a host is started."""

    jvm: Sequence[str] = ()
    """Options of the JVM after ours, which they override: setting `java.host.options`."""
    label: str = "host"
    """What the host is for, in logs and errors: `host of slot 3`, `host for validation`."""


class StartHost(Protocol):
    """`start_host` of `start`. Takes a third of a second; the first on a machine fetches Kafka's jars."""

    def __call__(self, options: HostOptions) -> "JavaHost":
        """Raises JavaUnavailableError."""


class JavaHost(Protocol):
    """A running JVM, the child of this process. It ends when this process does, in whatever way that happens."""

    pid: int

    @property
    def end(self) -> str | None:
        """Return how the host has ended, in a sentence; None while it runs."""

    @property
    def is_killed_by_others(self) -> bool: ...

    @property
    def ask(self) -> "HostedClasses": ...

    def connector(self, java_class: JavaClass, name: str, context: ConnectorContext) -> "HostedConnector":
        """Create a connector; it is not started. The host calls `context` from a thread of its own."""

    def source_task(self, start: "SourceTaskStart") -> "HostedSourceTask":
        """Create, initialize and start a source task with its transforms and converters."""

    def sink_task(self, start: "SinkTaskStart") -> "HostedSinkTask":
        """Create, initialize and start a sink task with its transforms and converters."""

    def chain(self, start: "ChainStart") -> "HostedSteps":
        """Create and configure transforms, predicates and converters for the chain of a Python connector."""

    def set_levels(self, levels: Mapping[str, str]) -> None:
        """Set the levels of Java's loggers, by Kafka Connect's names; "" is the root, which is INFO if it is left out.

        Plug-ins log to Python's loggers of the same names, whose levels hold as well. Raises as `threads` does.
        """

    def threads(self) -> str:
        """Return the stacks of all threads. Raises ConnectionLostError if there is no answer for half a minute."""

    def close(self) -> None:
        """End the host without asking any plug-in. Does nothing if it has ended."""

    def kill(self, why: str) -> None:
        """Send SIGKILL. Calls that are under way, and later ones, raise HostEndedError with `why` in its text."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class HostedClasses(Protocol):
    """Questions to classes, each of which a new instance answers. May be asked from any thread."""

    def describe(self, java_class: JavaClass) -> Description:
        """Load the class, create an instance, and ask it. Raises JavaPluginError with what is wrong with it."""

    def definitions(self, java_class: JavaClass) -> list[dict[str, Any]]:
        """Return the plug-in's settings as `GET /connector-plugins/NAME/config` has them."""

    def validate(self, java_class: JavaClass, properties: Mapping[str, str | None]) -> dict[str, Any]:
        """Return what `PUT .../config/validate` answers, for the plug-in's own settings alone (not those that Kafka
        Connect adds). For a connector this is its `validate`, which may ask the outside system."""

    def look_up(
        self, java_class: JavaClass, settings: Mapping[str, str], path: str, keys: Sequence[str]
    ) -> tuple[dict[str, str], int | None]:
        """Configure a config provider, ask it for values, and close it.

        Returns what it has of the keys, and for how many milliseconds that is valid; None: it does not expire.
        """


class HostedConnector(Protocol):
    """A connector in a host. `close` is always possible; `stop` belongs to `start`."""

    task_class: JavaClass
    version: str

    def start(self, properties: Mapping[str, str]) -> None: ...

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]: ...

    def exactly_once_support(self, properties: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Ask a source; the connector need not be started. None: the author does not declare it."""

    def can_define_transaction_boundaries(self, properties: Mapping[str, str]) -> bool:
        """Ask a source; the connector need not be started."""

    def alter_source_offsets(self, properties: Mapping[str, str], offsets: CommittedOffsets) -> bool:
        """Let the connector check or carry out a change of offsets; it is not started. It refuses with JavaError."""

    def alter_sink_offsets(self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Let a sink check or carry out a change of its group's offsets."""

    def stop(self) -> None: ...

    def figures(self) -> Figures:
        """Return the newest metrics of the connector, a few seconds old at most. Any thread; does not wait."""

    def interrupt(self) -> None:
        """Interrupt the connector's thread, from any thread: a call in a sleep ends with a JavaError.

        Returns within seconds, also if the host is stopped, which then does nothing.
        """

    def close(self) -> None:
        """Forget the connector without a call of it."""


@dataclass(frozen=True, kw_only=True)
class TaskStart:
    """All that a task needs. Neither config is in its repr."""

    connector: str
    task: int
    java_class: JavaClass
    """The task's class, as the connector's `task_class` says."""
    task_config: Mapping[str, str] = field(repr=False)
    """What `task_configs` returned for this task: the task sees this."""
    connector_config: Mapping[str, str] = field(repr=False)
    """The effective config: transforms, predicates, `errors.*`, and the three converters, the worker's if need be."""
    classes: Classes = field(default_factory=dict)
    passes_records: bool = False
    """Whether records cross with their values, because converters, and transforms next to them, are in Python."""


class GroupOffsets(Protocol):
    """What a sink task may ask its consumer. Called in the thread of the call in which it does so."""

    def committed(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offsets that the group has committed; partitions without one are left out."""

    def positions(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the next offsets for `put`, of partitions of the assignment."""

    def edges(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return where the logs of partitions begin and end."""


@dataclass(frozen=True, kw_only=True)
class SinkTaskStart(TaskStart):
    has_reporter: bool = False
    """Whether the task gets an ErrantRecordReporter: the config enables a log or dead letters."""
    offsets: GroupOffsets
    report: Callable[[Sequence["Errant"]], int]
    """Called by a call's thread, in its middle, when the task waits for its reports: gets further ones, and returns how
    many are safe, of all. Raises ConnectError if some cannot be."""


@dataclass(frozen=True, kw_only=True)
class SourceTaskStart(TaskStart):
    offsets: CommittedOffsets = ()
    """All offsets that the connector has committed, read after the task's producer was admitted."""
    defines_transactions: bool = False
    """Whether the task gets a TransactionContext (`transaction.boundary=connector`)."""


class Mark(Enum):
    """What the task's TransactionContext asks for at the end of what was polled."""

    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True)
class Failure:
    """A record that was dropped because `errors.tolerance` is `all`."""

    row: int
    """Its row in the batch. In that of a source its key, value and headers are those of its dead letter."""
    stage: str
    class_name: str
    message: str | None
    plugin: str
    """The class of the transform or converter that failed."""
    trace: str | None = None
    """Java's stack, if dead letters are to have it."""
    offset: SourceOffset | None = None
    """The source offset of a source's record."""


@dataclass(frozen=True)
class Processing:
    """What transforms, converters and `errors.*` did with the records of one call."""

    filtered: int = 0
    """Records that transforms removed."""
    failures: tuple[Failure, ...] = ()
    retries: int = 0
    """How often an operation on a record was tried again."""


@dataclass(frozen=True)
class Polled:
    """What a poll gave.

    `batch` has bytes (`BinaryColumn`s), transformed and converted; with `passes_records` it is a `RecordBatch`, only
    transformed. Rows that `processing.failures` names are dropped records. Records have no offsets of their own;
    `batch.ends` has those after the batch of all its source partitions, with those of filtered and dropped records. So
    a batch, which may have only `ends`, is committed as a whole or not at all, with the other parts up to a mark.
    """

    number: int
    """The batch's number, from 0."""
    batch: Batch
    is_whole: bool
    """Whether what Java's `poll` returned ends here. It is cut at marks, and into parts of about `max_bytes`."""
    mark: Mark | None = None
    processing: Processing = field(default_factory=Processing)


class HostedTask(Protocol):
    """A started task."""

    def figures(self) -> Figures:
        """Return the newest metrics of the task and its other plug-ins. Any thread; does not wait."""

    def stop(self, timeout_s: float) -> None:
        """Stop the task and close its transforms and converters. Kills the host if that takes longer."""

    def interrupt(self) -> None:
        """Interrupt the task's thread, from any thread: a `poll` in a sleep or a queue ends with a JavaError.

        Returns within seconds, also if the host is stopped, which then does nothing.
        """


class HostedSourceTask(HostedTask, Protocol):
    """A started source task. Only `commit_records` and `stop` follow an error of `poll` that is not retriable."""

    def poll(self, max_bytes: int | None = None) -> Polled | None:
        """Return what Java's `poll` gave next; None if it gave nothing. Blocks as long as Java's does."""

    def commit_records(self, number: int, metadata: Sequence[RecordMetadata | None] | None) -> None:
        """Call `commitRecord` for each record of batch `number`, and for those filtered.

        A record's entry is None if it was not written; records without an entry were not, either. Instead of a list,
        None says that all were written: Java is told -1 as partition and offset. Does nothing for a class without a
        `commitRecord` of its own.
        """

    def commit(self, offsets: CommittedOffsets) -> None:
        """Offsets were committed: tell the task's offset reader, and call its `commit`.

        If the class has no `commit` of its own, the offsets are kept for the next `poll`: this costs nothing, and may
        be called while a `poll` is under way.
        """

    def update_offsets(self, offsets: CommittedOffsets) -> CommittedOffsets:
        """Call the task's `updateOffsets` (KIP-910) with what is about to be committed. Returns its changes."""


class Errant(NamedTuple):
    """What a sink task has reported. The record has `as_read`, of bytes, unless the task has made it itself."""

    record: SinkRecord
    class_name: str
    message: str | None
    trace: str | None = None  # Java's stack, if dead letters are to have it


@dataclass(frozen=True)
class Effects:
    """What a call of a sink task has brought about, besides what it returns."""

    rewinds: Mapping[TopicPartition, int] = field(default_factory=dict)
    timeout_ms: int | None = None
    paused: tuple[TopicPartition, ...] = ()
    resumed: tuple[TopicPartition, ...] = ()
    requests_commit: bool = False
    errant: tuple[Errant, ...] = ()
    processing: Processing = field(default_factory=Processing)


@dataclass(frozen=True)
class PutEffects(Effects):
    """What a put has brought about."""

    puts: tuple[Put, ...] = field(default=(), compare=False)
    """The calls of Java's `put`, in order. All else is what the last one has brought about."""
    thrown: JavaError | JavaRetriableError | None = None
    """Why the rows of the last call are to be put again. Or, if it is no JavaRetriableError, why the task fails: then
    the last of the failures may be one that is not tolerated. Its record may become a dead letter before."""


class HostedSinkTask(HostedTask, Protocol):
    """A started sink task. Offsets of a group are those of the next record, as everywhere."""

    def open(self, partitions: Sequence[TopicPartition], member: GroupMember | None = None) -> Effects: ...

    def put(
        self, batch: SinkBatch, most_rows: int | None = None, *, is_again: bool = False, meanwhile: Act | None = None
    ) -> PutEffects:
        """Convert, transform and put records. Keys and values are `BinaryColumn`s or lists of bytes, headers a
        `HeaderColumn`; with `passes_records` they are values, which are only transformed.

        Java's `put` is called for at most `most_rows` at once. When a call has brought about anything, or after a
        while, no other follows: `puts` then has fewer rows than the batch, and the rest is neither converted nor put.
        After a JavaRetriableError in `thrown`, call it with `is_again` and the rows of the last call: they are not
        converted again. `meanwhile` is called while the host is busy with them, and must not raise."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> tuple[Mapping[TopicPartition, int], Effects]:
        """Return the offsets that may be committed."""

    def close(self, partitions: Sequence[TopicPartition]) -> Effects: ...
