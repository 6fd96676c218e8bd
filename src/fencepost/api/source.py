"""The contract of a source: a connector plans, its tasks move data (KIP-618, KIP-910)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, ClassVar, NamedTuple, Protocol

from fencepost.api.connector import Connector
from fencepost.api.offsets_in_group import OffsetsInGroup
from fencepost.record import Batch, SourceRecord

SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]


class ExactlyOnceSupport(Enum):
    """A connector's answer to `exactly.once.support=required` (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Form(Enum):
    """In which form `poll` gives records. With `producer.client=auto` it decides which client writes them."""

    RECORDS = auto()  # whatever has an object of Python's for each value
    COLUMNS = auto()  # a `BinaryColumn`, by itself or in a `Utf8Column`, where `context.takes_columns`
    BATCHES = auto()  # record batches of Kafka's, where `context.batches_refusal` is None


class RecordMetadata(NamedTuple):
    """Where a record went."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None


class Sent(NamedTuple):
    """The last record of a transaction in one partition of a topic: what it was read as, and where it went."""

    partition: SourcePartition
    offset: SourceOffset | None
    metadata: RecordMetadata


class TransactionContext(Protocol):
    """Lets a task define its transactions (`transaction.boundary=connector`).

    With a record, the request takes effect after that record, the very object, whenever `poll` returns it; without
    one, at the end of the batch that `poll` returns next. Asking for both a commit and an abort at one place fails the
    task, and so does a request with a record where `poll` returns a `Batch` of columns: its rows are no records.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None: ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None: ...


class SourceTaskContext(Protocol):
    """What the runtime offers a running task."""

    @property
    def configs(self) -> Mapping[str, str]:
        """Return the task's properties."""

    @property
    def transaction(self) -> TransactionContext | None:
        """Return what lets the task define its transactions; None unless `transaction.boundary` is `connector`."""

    def offset(self, partition: SourcePartition) -> dict[str, Any]:
        """Return the committed offset of a source partition, empty when there is none."""

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return (partition, offset) of everything that the connector has committed, as of the task's start."""

    @property
    def takes_columns(self) -> bool:
        """Say whether a `BinaryColumn` is sent as it is; else every value of it becomes an object before."""

    @property
    def batches_refusal(self) -> str | None:
        """Return why Kafka's record batches cannot be written as they were read; None where they can."""

    @property
    def transaction_bytes(self) -> int | None:
        """Return about how many bytes a transaction may have now, to be over in its time; None: there are none.

        A task that `heeds_transaction_bytes` returns no more from `poll`, unless one record has more.
        """

    @property
    def is_stopping(self) -> bool:
        """Say whether the task should return from `poll` by now."""

    def wait(self, timeout_s: float) -> bool:
        """Sleep for `timeout_s`, or until the task should stop, be paused or commit. Returns `is_stopping`."""

    def wake(self) -> None:
        """End one `wait`, the present or the next. From any thread: something has come that `poll` would return."""


class SourceTask(ABC):
    """Moves data. All methods run in one thread of a slot, on a Spark executor.

    Order: construction, `initialize`, `start`, then `poll` over and over with `update_offsets`, `commit_record` and
    `commit` in between, and `stop`. After a crash a new instance starts from the last committed offset.
    """

    config: Any
    context: SourceTaskContext

    polls_ahead: ClassVar[bool | None] = None
    """Whether `poll` may be called while the batch before is still being committed. None: if the class overrides none
    of `commit`, `commit_record` and `update_offsets`. A batch polled ahead of a commit that fails is polled again, by
    a new instance, from the committed offset; a `poll` that blocks for long delays that."""

    polls_late: ClassVar[bool] = False
    """Whether `poll` is called only when a transaction can begin, as long as transactions are small: for a source that
    goes on collecting meanwhile, so that all of it is in one and none waits for the next."""

    heeds_transaction_bytes: ClassVar[bool] = False
    """Whether `poll` returns at most `context.transaction_bytes`. A task that does not is failed by transactions that
    always take longer than `transaction.timeout.ms`."""

    @classmethod
    def form(cls, config: Any) -> Form:
        """Say what `poll` returns with this config, as far as the context allows it. Asked before a task is made."""
        return Form.RECORDS

    def initialize(self, context: SourceTaskContext, config: Any) -> None:
        """Keep `context` and `config` (the connector class, parsed from the task's properties)."""
        self.context = context
        self.config = config

    def start(self) -> None:
        """Open what is needed and go to the committed offset. An exception fails the task."""

    @abstractmethod
    def poll(self) -> Batch | Sequence[SourceRecord] | None:
        """Return the next records, or None when there are none now; may block, but should heed `is_stopping`.

        Raises:
            RetriableError: poll again.
            Exception: the task fails; nothing of this batch is written.
        """

    def commit(self) -> None:
        """Called after offsets were committed: what `poll` returned before may be acknowledged upstream.

        With `transaction.boundary` `interval` or `connector`, or exactly-once off, records polled later than the
        commit are not covered.
        """

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Called once a record is committed, or was filtered or dropped (`metadata` is None then)."""

    def update_offsets(
        self, offsets: Mapping[tuple[tuple[str, Any], ...], SourceOffset | None]
    ) -> Mapping[tuple[tuple[str, Any], ...], SourceOffset | None] | None:
        """Change what is about to be committed (KIP-910). Called right before that, records or not.

        `offsets`, read-only, holds what is about to be committed: not all that was polled. A source partition stands as
        its sorted items, and may be returned with its items in any order (`partition_key` makes such a key, where 1,
        1.0 and True differ, as in the topic). Return additions and changes; None as an offset writes a
        tombstone. What is left out is committed as it is; None, or an empty map, changes nothing.

        Exactly once, it is called in the transaction that the offsets will be committed in; with boundaries of the
        connector's only when the task asks for a commit, or for an abort, after which offsets alone are committed. At
        least once, it is called when a flush is due, unless records of the last poll were not processed; an offset
        returned then waits for the unacknowledged records of its source partition. An exception fails the task.
        """
        return None

    def closing(self, sent: Sequence[Sent]) -> Sequence[SourceRecord]:
        """Return records that end a transaction: of what was sent in it, the last record of each partition is told.

        Called once the records are in the log, in another thread than `poll`, in the order of the transactions; what it
        returns is committed with them. Keys, values and values of headers are bytes: no transform or converter sees
        them. Records whose partition Kafka's client chose are not told of. At least once, they are written behind the
        records.
        """
        return ()

    def figures(self) -> Mapping[str, Sequence[Sequence[str | float]]]:
        """Return what the task has measured itself, for `GET /metrics`: rows of labels and numbers, by kind.

        The kinds are those that the worker knows: a mirror's. Called once a second, in another thread, also before
        `start` and after `stop`. It must not raise: an error is logged and the figures are left out; the fifth in a row
        stops the task, which commits, and fails it.
        """
        return {}

    def stop(self) -> None:
        """Close what `start` opened. Called in the task's thread after the last `poll`."""


class SourceConnector(Connector):
    """Plans the work of a source. Its settings are its fields; the instance holds their values.

    Runs on the worker that owns the connector (the Spark driver), never on an executor.
    """

    task: ClassVar[type[SourceTask]]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        """Say whether this config gives exactly-once; None means that the author did not say."""
        return None

    def demands_exactly_once(self) -> str | None:
        """Return the setting by which this config asks for exactly-once, besides `exactly.once.support`; None: none."""
        return None

    def can_define_transaction_boundaries(self) -> bool:
        """Say whether the tasks use `context.transaction`."""
        return False

    def offsets_in_group(self, name: str) -> OffsetsInGroup | None:
        """Return how offsets of the connector `name` are kept in a group of the target; None: in the offsets topic."""
        return None

    def alter_offsets(self, offsets: Mapping[tuple[tuple[str, Any], ...], SourceOffset | None]) -> bool:
        """Check, or carry out outside, a change of offsets by an administrator. Raise to refuse it."""
        return False
