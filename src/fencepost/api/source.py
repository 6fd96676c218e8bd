"""The contract of a source: a connector plans work, and its tasks move data (KIP-618, KIP-910)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, ClassVar, Generic, NamedTuple, Protocol

from fencepost.api.connector import ConfigT, Connector
from fencepost.record import Batch, SourceRecord

SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]


class ExactlyOnceSupport(Enum):
    """A source's answer to `exactly.once.support=required` (KIP-618), and what a sink promises.

    >>> from fencepost.api import ExactlyOnceSupport, SourceConnector
    >>> class FeedConnector(SourceConnector):
    ...     def exactly_once_support(self) -> ExactlyOnceSupport:
    ...         return ExactlyOnceSupport.SUPPORTED
    """

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Form(Enum):
    """The form in which `poll` returns records. With `producer.client=auto` it decides which client writes them.

    >>> from fencepost.api import Form, SourceTask
    >>> class BytesTask(SourceTask):
    ...     @classmethod
    ...     def form(cls, config: object) -> Form:
    ...         return Form.COLUMNS
    """

    RECORDS = auto()  # one Python object per value
    COLUMNS = auto()  # a `BinaryColumn`, by itself or in a `Utf8Column`, if `context.takes_columns`


class RecordMetadata(NamedTuple):
    """The position in Kafka that a record was written to.

    >>> from fencepost.api import RecordMetadata, SourceRecord, SourceTask
    >>> class QueueTask(SourceTask):
    ...     def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
    ...         print("filtered" if metadata is None else f"{metadata.topic}-{metadata.partition}@{metadata.offset}")
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None


class TransactionContext(Protocol):
    """Lets a task define its transactions (`transaction.boundary=connector`).

    A request with a record takes effect after `poll` has returned that record (the same object). A request without
    one takes effect at the end of the next batch that `poll` returns. The task fails if it requests both a commit and
    an abort at the same place, or if it passes a record although `poll` returns a `Batch` of columns, whose rows are
    not record objects.

    >>> from fencepost.api import SourceRecord, SourceTask
    >>> class OrdersTask(SourceTask):
    ...     def poll(self) -> list[SourceRecord]:
    ...         lines = [SourceRecord({"orders": "all"}, {"order": 1}, "orders", {"line": n}) for n in (1, 2)]
    ...         assert self.context.transaction is not None
    ...         self.context.transaction.commit_transaction(lines[-1])
    ...         return lines
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None: ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None: ...


class SourceTaskContext(Protocol):
    """What the runtime offers a running task.

    >>> from fencepost.api import SourceTask
    >>> class CounterTask(SourceTask):
    ...     def start(self) -> None:
    ...         self.n = self.context.offset({"counter": "a"}).get("n", 0)
    ...     def poll(self) -> None:
    ...         self.context.wait(1.0)  # not time.sleep: it ends early when the task is to stop
    """

    @property
    def configs(self) -> Mapping[str, str]:
        """Return the task's properties."""

    @property
    def transaction(self) -> TransactionContext | None:
        """Return how the task defines its transactions; None unless `transaction.boundary` is `connector`.

        It is `connector` also if the class `defines_transactions`.
        """

    def offset(self, partition: SourcePartition) -> dict[str, Any]:
        """Return the committed offset of a source partition; an empty dict if nothing is committed."""

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the source offsets that the connector had committed when the task started: (partition, offset)."""

    @property
    def takes_columns(self) -> bool:
        """Return whether a `BinaryColumn` is sent as it is; if not, each value becomes a Python object first."""

    @property
    def transaction_bytes(self) -> int | None:
        """Return about how many bytes a transaction may hold now to end before its time-out; None if none are used.

        A task that `heeds_transaction_bytes` returns at most this much from `poll`, unless one record alone is larger.
        """

    @property
    def transaction_timeout_s(self) -> float | None:
        """Return how long a transaction may last, in seconds, before the broker aborts it; None if none are used."""

    @property
    def is_stopping(self) -> bool:
        """Return whether `poll` should return now."""

    def wait(self, timeout_s: float) -> bool:
        """Sleep for `timeout_s`, or until the task should stop, pause or commit. Returns `is_stopping`."""

    def wake(self) -> None:
        """End the current `wait`, or the next one. Call it from any thread when `poll` has something to return."""


class SourceTask(ABC, Generic[ConfigT]):
    """Moves data. All methods run in one thread of a slot, on a Spark executor.

    Order: construction, `initialize`, `start`, then `poll` again and again with `update_offsets`, `commit_record` and
    `commit` in between, and `stop`. After a crash a new instance starts from the last committed offset.

    `SourceTask["CounterConnector"]` says what `self.config` is, so that type checkers and editors know its settings:

    >>> from fencepost.api import Batch, SourceConnector, SourceTask, setting
    >>> class CounterTask(SourceTask["CounterConnector"]):
    ...     def start(self) -> None:
    ...         self.n = self.context.offset({"counter": "a"}).get("n", 0)
    ...
    ...     def poll(self) -> Batch:
    ...         self.n += self.config.step
    ...         return Batch.of_rows([{"n": self.n}], topic="n", source_partition={"counter": "a"}, offset="n")
    >>> class CounterConnector(SourceConnector):
    ...     task = CounterTask
    ...     step: int = setting("step", default=1)
    >>> from fencepost.testing import poll_once
    >>> poll_once(CounterConnector, {"step": "5"}, offsets=[({"counter": "a"}, {"n": 10})])[0].value
    {'n': 15}
    """

    config: ConfigT
    context: SourceTaskContext

    polls_ahead: ClassVar[bool | None] = None
    """Whether `poll` may be called while the previous batch is still being committed. None means yes if the class
    overrides none of `commit`, `commit_record` and `update_offsets`. If that commit fails, a new instance starts from
    the committed offset and polls again; a `poll` that blocks for long delays this."""

    heeds_transaction_bytes: ClassVar[bool] = False
    """Whether `poll` returns at most `context.transaction_bytes`. If False, the task fails when its transactions always
    take longer than `transaction.timeout.ms`."""

    @classmethod
    def form(cls, config: Any) -> Form:
        """Return the form of what `poll` returns, if the context allows it. Called before a task is created."""
        return Form.RECORDS

    def initialize(self, context: SourceTaskContext, config: ConfigT) -> None:
        """Store `context` and `config` (an instance of the connector class, parsed from the task's properties)."""
        self.context = context
        self.config = config

    def start(self) -> None:
        """Open what the task needs and seek to the committed offset. An exception fails the task."""

    @abstractmethod
    def poll(self) -> Batch | Sequence[SourceRecord] | None:
        """Return the next records, or None if there are none yet. May block, but should heed `is_stopping`.

        Raises:
            RetriableError: `poll` is called again.
            Exception: the task fails, and nothing of this batch is written.
        """

    def commit(self) -> None:
        """Called after offsets are committed: the task may acknowledge the committed records upstream.

        With `transaction.boundary` `interval` or `connector`, or with exactly-once off, the commit does not cover
        records that were polled after it.
        """

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Called once a record is committed, or is filtered or dropped (`metadata` is None then)."""

    def update_offsets(
        self, offsets: Mapping[tuple[tuple[str, Any], ...], SourceOffset | None]
    ) -> Mapping[tuple[tuple[str, Any], ...], SourceOffset | None] | None:
        """Change the offsets that are about to be committed (KIP-910). Called before each commit, even without records.

        `offsets` is read-only and holds only the offsets about to be committed, not everything that was polled. Its
        keys are the sorted items of source partitions. Returned keys may have their items in any order;
        `partition_key` makes such a key, in which 1, 1.0 and True differ, as they do in the topic. Return additions
        and changes. An offset of None writes a tombstone. Offsets that are left out are committed unchanged; None
        or an empty map changes nothing.

        With exactly-once, it is called in the transaction that commits the offsets. If the connector defines the
        transactions, it is called only when the task requests a commit, or an abort, after which offsets alone are
        committed. With at-least-once, it is called when a flush is due, unless records of the last poll are not
        processed yet; a returned offset then waits for the unacknowledged records of its source partition. An exception
        fails the task.
        """
        return None

    def stop(self) -> None:
        """Close what `start` opened. Called in the task's thread after the last `poll`."""


class SourceConnector(Connector):
    """Plans the work of a source. Its settings are its fields; the instance holds their values.

    Runs on the worker that owns the connector (the Spark driver), never on an executor.

    >>> from fencepost.api import SourceConnector, SourceTask, setting
    >>> class FilesTask(SourceTask["FilesConnector"]):
    ...     def poll(self) -> None: ...
    >>> class FilesConnector(SourceConnector):
    ...     task = FilesTask
    ...     files: list[str] = setting("files", doc="The files to read.")
    ...
    ...     def task_configs(self, max_tasks: int) -> list[dict[str, object]]:
    ...         own, count = super().task_configs(1)[0], min(max_tasks, len(self.files))
    ...         return [own | {"files": self.files[n::count]} for n in range(count)]
    >>> [own["files"] for own in FilesConnector({"files": "a,b,c"}).task_configs(2)]
    [['a', 'c'], ['b']]
    """

    task: ClassVar[type[SourceTask]]

    defines_transactions: ClassVar[bool] = False
    """Whether the tasks always define their transactions: `transaction.boundary` is `connector` then without being set,
    and a config with another value is refused. For changes that must become visible together, for example."""

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        """Return whether this config supports exactly-once; None if the author does not declare it."""
        return None

    def demands_exactly_once(self) -> str | None:
        """Return a setting, other than `exactly.once.support`, by which this config requires exactly-once, or None."""
        return None

    def can_define_transaction_boundaries(self) -> bool:
        """Return whether the tasks use `context.transaction`."""
        return self.defines_transactions

    def alter_offsets(self, offsets: Mapping[tuple[tuple[str, Any], ...], SourceOffset | None]) -> bool:
        """Check an administrator's change of offsets, or carry it out in the outside system. Raise to refuse it."""
        return False
