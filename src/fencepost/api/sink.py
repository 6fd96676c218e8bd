"""The contract of a sink: its tasks are members of a consumer group and are given what they are assigned."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, NamedTuple, Protocol

from fencepost.api.connector import Connector
from fencepost.record import SinkBatch, SinkRecord, TopicPartition

Offsets = Mapping[TopicPartition, int]
"""The offset of the next record of each partition: what a group commits."""


class FencingToken(NamedTuple):
    """What tells a store who is newer: the task generation, then the generation of the group.

    Of two tasks that have had a partition, the later one has the greater token.
    """

    task_generation: int
    group_generation: int


class ErrantRecordReporter(Protocol):
    """Takes records that the task could not write, one by one (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> "Future[None]":
        """Have a record of a batch logged, and written to the dead letter topic, as the config asks for.

        The future is done once the record is safe; no offset passes it before that, whether or not anybody waits.
        Raises FatalError where errors are not tolerated: let it pass, the task fails.
        """


class SinkTaskContext(Protocol):
    """What the runtime offers a running task. For the task's thread."""

    @property
    def configs(self) -> Mapping[str, str]:
        """Return the task's properties."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are the task's now."""

    @property
    def group_metadata(self) -> Any:
        """Return the group's metadata as captured with the assignment; None before the first (KIP-447)."""

    @property
    def fencing_token(self) -> FencingToken | None:
        """Return the token of the assignment, captured with it; None before the first.

        A store with transactions of its own keeps it beside the rows of each partition, and refuses whoever comes with
        a smaller one: a task that was replaced and does not know it. It changes only between two calls of the task.
        """

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """Return what takes records that cannot be written; None where the config has neither log nor dead letters."""

    @property
    def is_stopping(self) -> bool:
        """Say whether the task should return from `put` by now."""

    def offset(self, offsets: Offsets) -> None:
        """Go on at these offsets in these partitions, once the call under way has returned.

        For stores that know by themselves how far they are: ask them in `open`, and begin there. Records of the
        partition that `put` has refused for now are dropped: they are read again.
        """

    def timeout(self, timeout_ms: int) -> None:
        """Call `put` again after so many milliseconds, once: with the same records if it raises RetriableError, else
        with an empty batch if nothing comes until then."""

    def pause(self, *partitions: TopicPartition) -> None:
        """Give no more records of these partitions until `resume`, or until they are assigned anew."""

    def resume(self, *partitions: TopicPartition) -> None:
        """Give records of these partitions again."""

    def request_commit(self) -> None:
        """Ask for `pre_commit`, and a commit, before the next `put`."""


class SinkTask(ABC):
    """Writes what is in topics to an outside system. All methods run in one thread of a slot, on a Spark executor.

    Order: construction, `initialize`, `start`, then `open`, `put`, `pre_commit` and `close` as the group's assignment
    and the clock ask for it, and `stop`. Offsets are committed each `offset.flush.interval.ms`, before a partition is
    given up, and at the stop. After a crash the records since the last commit are given to some task again.
    """

    config: Any
    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext, config: Any) -> None:
        """Keep `context` and `config` (the connector class, parsed from the task's properties)."""
        self.context = context
        self.config = config

    def start(self) -> None:
        """Open what is needed. An exception fails the task."""

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Take over partitions, before their first record. `context.offset` may say where to begin."""

    @abstractmethod
    def put(self, batch: SinkBatch) -> None:
        """Take records, in the order of each partition; they need not be safe before `flush`.

        A batch may be empty: such a one comes soon after `open`, and whenever nothing else has come for
        `offset.flush.interval.ms` or for what `context.timeout` asked for. Write then what you have kept for too long.

        Raises:
            RetriableError: the same records are given again, after `context.timeout`; nothing else is meanwhile.
            Exception: the task fails; nothing of this batch is committed.
        """

    def flush(self, offsets: Offsets) -> None:
        """Make safe all records below these offsets. An exception: they are not committed, and are given again."""

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Return what may be committed of `offsets`, which is all that `put` has taken. By default flushes, then all.

        What is left out stays as it was committed before. An exception rewinds the task to what is committed.
        """
        self.flush(offsets)
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Give up partitions: they are another task's when this returns. Called after their last commit."""

    def stop(self) -> None:
        """Close what `start` opened. Called in the task's thread, after the last `close`."""


class SinkConnector(Connector):
    """Plans the work of a sink. Its settings are its fields; the instance holds their values.

    Runs on the worker that owns the connector (the Spark driver), never on an executor.
    """

    task: ClassVar[type[SinkTask]]

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Return the properties of each task: by default `max_tasks` alike, among which the group divides partitions.

        They are stored as text, as those of a source's tasks are.
        """
        return super().task_configs(1) * max_tasks

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Check, or carry out outside, a change of offsets by an administrator. Raise to refuse it."""
        return False
