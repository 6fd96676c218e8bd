"""Hooks for connectors and tasks of the built-in mirror."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from fencepost.api.connector import ConnectorContext
from fencepost.api.source import (
    RecordMetadata,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
    SourceTaskContext,
)
from fencepost.config.cluster import ClosedTopics
from fencepost.record import SourceRecord, TopicPartition


class Sent(NamedTuple):
    """A record that was written to a topic partition: its source position and its position there."""

    partition: SourcePartition
    offset: SourceOffset | None
    metadata: RecordMetadata


class OffsetsInGroup(ABC):
    """Maps source offsets to committed offsets of a group in the cluster that the connector's tasks write to.

    The group has no members and reads nothing. Its committed offsets are the source's position, and a task commits
    them in the transaction of the records that they cover. A broker accepts offsets only for topics that it has.
    """

    group: str

    @abstractmethod
    def place(self, partition: Mapping[str, Any]) -> TopicPartition | None:
        """Return the topic partition that stores a source partition's offset; None: the offsets topic stores it."""

    @abstractmethod
    def places(self, task_configs: Sequence[Mapping[str, str | None]]) -> Collection[TopicPartition]:
        """Return the topic partitions that store the offsets of these tasks' source partitions."""

    @abstractmethod
    def position(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> tuple[int, str]:
        """Return the number, 0 or more, and the metadata text that are committed for a source offset.

        Raises FatalError if the offset cannot be expressed that way.
        """

    @abstractmethod
    def source(
        self, place: TopicPartition, position: int, metadata: str
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the source partition and offset of a committed offset; None if it is not this connector's."""


class MirrorContext(ConnectorContext, Protocol):
    """What the runtime offers a mirror's connector."""

    def closed_topics(self, cluster_id: str) -> ClosedTopics:
        """Return the topics of a cluster that no connector may read or change; none unless it is the workers'.

        Raises KafkaUnavailableError or KafkaAuthorizationError if the workers' cluster does not answer.
        """


class MirrorConnector(SourceConnector):
    """A source connector whose positions may be in a group of the cluster that its tasks write to (KIP-656)."""

    context: MirrorContext

    def offsets_in_group(self, name: str) -> OffsetsInGroup | None:
        """Return how a group stores the offsets of connector `name`; None: the offsets topic does."""
        return None


class MirrorTaskContext(SourceTaskContext, Protocol):
    """What the runtime offers a mirror's task."""

    @property
    def batches_refusal(self) -> str | None:
        """Return why Kafka's record batches cannot be written as they were read; None if they can."""


class MirrorTask(SourceTask):
    """A source task that can copy whole record batches, add records to its transactions, and report measurements."""

    context: MirrorTaskContext

    polls_late: ClassVar[bool] = False
    """Whether `poll` is called only when a transaction can begin, as long as transactions are small. For a source that
    collects data between polls: one transaction then holds all of it, and nothing waits for the next one."""

    @classmethod
    def reads_batches(cls, config: Any) -> bool:
        """Return whether `poll` returns Kafka's record batches if `context.batches_refusal` is None.

        Called before a task is created: with `producer.client=auto` it decides which client writes them.
        """
        return False

    def closing(self, sent: Sequence[Sent]) -> Sequence[SourceRecord]:
        """Return records to add at the end of a transaction, given the last record sent to each topic partition.

        Before the last one, `sent` has the first one that the task has sent to a topic partition at all. Called once
        the transaction's records are in the log, in the order of the transactions, and not in the thread of `poll`.
        The returned records are committed with them. Their keys, values and header values must be bytes: no transform
        or converter is applied. `sent` leaves out records whose partition Kafka's client chose. With at-least-once, the
        returned records are written after the task's records.
        """
        return ()

    def delivered(self, sent: Sequence[Sent]) -> Sequence[SourceRecord]:
        """Return records to write at once, as `closing` does for transactions.

        Called every second with at-least-once, for records that are in the log: offsets may be committed much later.
        """
        return ()

    def figures(self) -> Mapping[str, Sequence[Sequence[str | float]]]:
        """Return the task's measurements for `GET /metrics`: for each kind, rows of labels and numbers.

        The worker knows the kinds. Called once a second in another thread, also before `start` and after `stop`. It
        must not raise: an error is logged and the figures are left out. After the fifth error in a row the task
        commits, stops and fails.
        """
        return {}


def adds_records(task: type[SourceTask]) -> bool:
    """Return whether tasks of this class add records at the end of their transactions."""
    return issubclass(task, MirrorTask) and task.closing is not MirrorTask.closing
