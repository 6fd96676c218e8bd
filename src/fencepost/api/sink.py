"""The contract of a sink: its tasks are members of a consumer group and receive the records of their partitions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, Generic, NamedTuple, Protocol

from fencepost.api.connector import ConfigT, Connector
from fencepost.api.source import ExactlyOnceSupport
from fencepost.record import SinkBatch, SinkRecord, TopicPartition

Offsets = Mapping[TopicPartition, int]
"""The offset of the next record of each partition, as a group commits it."""


class FencingToken(NamedTuple):
    """Tells a store which of two tasks is newer: the task generation, then the group generation.

    Of two tasks that have owned the same partition, the later owner has the greater token.

    >>> from fencepost.api import FencingToken
    >>> FencingToken(task_generation=6, group_generation=1) > FencingToken(5, 9)
    True
    """

    task_generation: int
    group_generation: int


class ErrantRecordReporter(Protocol):
    """Takes single records that the task cannot write (KIP-610).

    >>> from fencepost.api import SinkBatch, SinkTask
    >>> class TableTask(SinkTask):
    ...     def put(self, batch: SinkBatch) -> None:
    ...         for record in batch:
    ...             try:
    ...                 self.insert(record.value["id"])
    ...             except KeyError as error:
    ...                 if self.context.errant_record_reporter is None:
    ...                     raise
    ...                 self.context.errant_record_reporter.report(record, error)
    """

    def report(self, record: SinkRecord, error: Exception) -> "Future[None]":
        """Report a record of the batch: it is logged and written to the dead letter topic, as the config says.

        The future completes once the record is durable. No offset beyond the record is committed before that, even if
        the task does not wait for the future. Raises FatalError if errors are not tolerated; do not catch it, so that
        the task fails.
        """


class SinkTaskContext(Protocol):
    """What the runtime offers a running task. Use it in the task's thread only.

    >>> from collections.abc import Sequence
    >>> from fencepost.api import SinkTask, TopicPartition
    >>> class TableTask(SinkTask):
    ...     def open(self, partitions: Sequence[TopicPartition]) -> None:
    ...         self.context.seek({partition: self.stored_offset(partition) for partition in partitions})
    """

    @property
    def configs(self) -> Mapping[str, str]:
        """Return the task's properties."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that the task owns now."""

    @property
    def group_metadata(self) -> Any:
        """Return the group metadata captured with the assignment; None before the first assignment (KIP-447)."""

    @property
    def fencing_token(self) -> FencingToken | None:
        """Return the token captured with the assignment; None before the first assignment.

        A transactional store keeps the token with the rows of each partition and refuses a writer with a smaller one:
        that is a task that was replaced and does not know it. The token changes only between two calls of the task.
        """

    def topic_id(self, topic: str) -> str:
        """Ask the cluster for the id of a topic; empty if it has none. A topic that is created again gets another one.

        For stores that keep their own position: offsets of another topic of the same name mean nothing. Raises
        RetriableError if no broker answers.
        """

    def take_resets(self) -> frozenset[TopicPartition]:
        """Return where reading was reset since the last call: the log has nothing any more that was put of it.

        For stores that keep their own position: their topic may have another id. `pre_commit` is called, with the new
        offset, before records from there are put, if `auto.offset.reset` is `latest`.
        """

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """Return the reporter for records that cannot be written; None if the config enables no log or dead letters."""

    @property
    def is_stopping(self) -> bool:
        """Return whether `put` should return now."""

    def seek(self, offsets: Offsets) -> None:
        """Continue at these offsets in these partitions once the current call has returned.

        For stores that keep their own position: read it in `open` and start there. If `put` has raised RetriableError
        for records of these partitions, they are not retried but read again.
        """

    def offset(self, offsets: Offsets) -> None:
        """Do the same as `seek`, under Kafka Connect's name. (A source's `context.offset` returns an offset.)"""

    def timeout(self, timeout_ms: int) -> None:
        """Call `put` again once, after `timeout_ms`. If `put` raises RetriableError, it receives the same records;
        otherwise it receives an empty batch if no records arrive by then."""

    def pause(self, *partitions: TopicPartition) -> None:
        """Deliver no records of these partitions until `resume`, or until they are assigned again."""

    def resume(self, *partitions: TopicPartition) -> None:
        """Deliver records of these partitions again."""

    def request_commit(self) -> None:
        """Request `pre_commit` and a commit before the next `put`."""


class SinkTask(ABC, Generic[ConfigT]):
    """Writes records of topics to an outside system. All methods run in one thread of a slot, on a Spark executor.

    Order: construction, `initialize`, `start`, then `open`, `put`, `pre_commit` and `close` as the group's assignment
    and the clock require, and `stop`. Offsets are committed every `offset.flush.interval.ms`, before a partition is
    released, and at the stop. After a crash, some task receives the records since the last commit again.

    >>> from collections.abc import Mapping
    >>> from fencepost.api import SinkBatch, SinkConnector, SinkTask, TopicPartition, setting
    >>> class LogTask(SinkTask["LogConnector"]):
    ...     def start(self) -> None:
    ...         self.out = open(self.config.path, "a")
    ...
    ...     def put(self, batch: SinkBatch) -> None:
    ...         self.out.writelines(f"{record.value}\\n" for record in batch)
    ...
    ...     def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
    ...         self.out.flush()
    ...
    ...     def stop(self) -> None:
    ...         self.out.close()
    >>> class LogConnector(SinkConnector):
    ...     task = LogTask
    ...     path: str = setting("path")
    """

    most_records: ClassVar[int] = 500
    """How many records `put` gets at most, unless the user sets `consumer.override.max.poll.records`. If more than 500,
    it begins with 500 and gets more while it is quick: a batch costs about 0.6 ms whatever its size."""
    takes_columns: ClassVar[bool] = False
    """Whether keys and values of a batch may be a `StructColumn`. Otherwise each row is an object."""

    config: ConfigT
    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext, config: ConfigT) -> None:
        """Store `context` and `config` (an instance of the connector class, parsed from the task's properties)."""
        self.context = context
        self.config = config

    def start(self) -> None:
        """Open what the task needs. An exception fails the task."""

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Take over partitions, before their first record. `context.seek` may set where to start."""

    @abstractmethod
    def put(self, batch: SinkBatch) -> None:
        """Take records, in order within each partition. They need not be durable before `flush`.

        A batch may be empty. An empty batch comes soon after `open`, and whenever no records have come for
        `offset.flush.interval.ms` or for the time requested by `context.timeout`. Use it to write records that you have
        buffered for too long.

        Raises:
            RetriableError: `put` is called again with the same records, and no others, after `context.timeout`.
            Exception: the task fails, and nothing of this batch is committed.
        """

    def flush(self, offsets: Offsets) -> None:
        """Make all records below these offsets durable. If it raises, they are not committed but delivered again."""

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Return the offsets that may be committed; `offsets` covers everything that `put` has taken.

        By default this calls `flush` and returns `offsets`. A partition that is left out keeps its last committed
        offset. An exception rewinds the task to the committed offsets.
        """
        self.flush(offsets)
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Release partitions: another task will own them. Called after their last flush, and before the commit of it.

        A record that is reported meanwhile is a dead letter before its offset is committed.

        Raises:
            RetriableError: nothing of these partitions is committed; whoever owns them next gets their records again.
            Exception: the same, and the task fails.
        """

    def stop(self) -> None:
        """Close what `start` opened. Called in the task's thread, after the last `close`."""


class SinkConnector(Connector):
    """Plans the work of a sink. Its settings are its fields; the instance holds their values.

    Runs on the worker that owns the connector (the Spark driver), never on an executor.

    >>> from fencepost.api import SinkBatch, SinkConnector, SinkTask, setting
    >>> class NothingTask(SinkTask):
    ...     def put(self, batch: SinkBatch) -> None: ...
    >>> class NothingConnector(SinkConnector):
    ...     task = NothingTask
    >>> len(NothingConnector({"topics": "a"}).task_configs(3))  # tasks share the partitions of the topics
    3
    """

    task: ClassVar[type[SinkTask]]

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Return the properties of each task. By default `max_tasks` tasks have the same ones and share the partitions.

        They are stored as text, as those of a source's tasks are.
        """
        return super().task_configs(1) * max_tasks

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        """Return whether each record is there once with this config, though a record may be put again after a crash.

        None if the author does not declare it. Users see it; nothing else depends on it.
        """
        return None

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Check an administrator's change of offsets, or carry it out in the outside system. Raise to refuse it."""
        return False
