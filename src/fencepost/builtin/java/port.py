"""What goes into a host and comes out of it. `client.host` and `client.session` have the calls; their rules:

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
from typing import NamedTuple, Protocol

from fencepost.api.source import SourceOffset, SourcePartition
from fencepost.builtin.java.error import JavaError, JavaRetriableError
from fencepost.hook.hosted_task import GroupMember as GroupMember
from fencepost.hook.hosted_task import Put as Put
from fencepost.record import Batch, SinkRecord, TopicPartition

CommittedOffsets = Sequence[tuple[SourcePartition, SourceOffset | None]]
"""Source partitions with their offsets; None: there is none, or it is removed."""

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


class ChainStep(NamedTuple):
    """A transform, predicate or converter. Its settings are those of the config that begin with `prefix`."""

    role: str
    """`choose`, `transform`, `header`, `key` or `value`."""
    java_class: JavaClass
    prefix: str
    is_negated: bool = False
    """Whether `choose` chooses the records that the predicate does not match."""
    is_conditional: bool = False
    """Whether a transform applies only to chosen records."""


@dataclass(frozen=True)
class ChainStart:
    """All that the Java steps in the chain of a Python connector need."""

    owner: str
    """The task, in logs."""
    is_source: bool
    """Whether converters make bytes of values, or values of bytes."""
    config: Mapping[str, str] = field(repr=False)
    steps: Sequence[ChainStep]
