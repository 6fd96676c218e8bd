"""The contract of a stream: its tasks read topics and write topics of the same cluster, exactly once (KIP-447)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, Protocol

from fencepost.api.connector import ConfigT
from fencepost.api.sink import SinkConnector
from fencepost.api.source import ExactlyOnceSupport
from fencepost.record import Batch, SinkBatch, SinkRecord, TopicPartition

Rows = SinkBatch | Batch | Sequence[SinkBatch | Batch | SinkRecord] | None
"""The output of a task for one batch: a batch of columns, or a sequence of such batches and of single records."""


class StreamTaskContext(Protocol):
    """What the runtime offers a running task. Use it in the task's thread only.

    >>> from fencepost.api import SinkBatch, SinkRecord, StreamTask
    >>> class ParseTask(StreamTask):
    ...     def process(self, batch: SinkBatch) -> list[SinkRecord]:
    ...         return [parsed for parsed in map(self.parsed, batch) if parsed is not None]
    ...
    ...     def parsed(self, record: SinkRecord) -> SinkRecord | None:
    ...         try:
    ...             return record.to("parsed", value=int(record.value))
    ...         except ValueError as error:
    ...             self.context.report(record, error)
    ...             return None
    """

    @property
    def configs(self) -> Mapping[str, str]:
        """Return the task's properties."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that the task owns now."""

    @property
    def is_stopping(self) -> bool:
        """Return whether `process` should return now."""

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Report a record of the current batch as failed: it is logged, or written to a dead letter topic in the
        transaction that commits past it, as the config says.

        Raises FatalError if errors are not tolerated; do not catch it, so that the task fails.
        """


class StreamTask(ABC, Generic[ConfigT]):
    """Turns records into other records. All methods run in one thread of a slot, on a Spark executor.

    Order: construction, `initialize`, `start`, then `process` again and again, and `stop`. One transaction commits the
    records that `process` returns and the offsets of the records it received. After a crash, or after partitions have
    moved, some task receives the uncommitted records again: keep no state in which `process` would count them twice.

    >>> from fencepost.api import SinkBatch, StreamConnector, StreamTask, setting
    >>> class LongWordsTask(StreamTask["LongWordsConnector"]):
    ...     def process(self, batch: SinkBatch) -> SinkBatch:
    ...         return batch.where([len(word) >= self.config.letters for word in batch.values]).to("long-words")
    >>> class LongWordsConnector(StreamConnector):
    ...     task = LongWordsTask
    ...     letters: int = setting("letters", default=8)
    """

    config: ConfigT
    context: StreamTaskContext

    def initialize(self, context: StreamTaskContext, config: ConfigT) -> None:
        """Store `context` and `config` (an instance of the connector class, parsed from the task's properties)."""
        self.context = context
        self.config = config

    def start(self) -> None:
        """Open what the task needs. An exception fails the task."""

    @abstractmethod
    def process(self, batch: SinkBatch) -> Rows:
        """Return the records to write for a batch, to any topics; None to write nothing.

        Set the topic with `batch.to(topic)` or `record.to(topic)`. Records keep their key, timestamp and headers unless
        you set others. Records for one partition of a topic are written in the order in which they are returned.

        Raises:
            RetriableError: `process` receives the same records again a little later, perhaps in different batches.
            Exception: the task fails, and nothing of this batch is written.
        """

    def stop(self) -> None:
        """Close what `start` opened."""


class StreamConnector(SinkConnector):
    """Plans the work of a stream. Its settings are its fields; the instance holds their values.

    To the worker and in REST it is a sink: it has `topics`, a consumer group whose members share the partitions, and
    that group's offsets.

    >>> from fencepost.api import SinkBatch, StreamConnector, StreamTask
    >>> class CopyTask(StreamTask):
    ...     def process(self, batch: SinkBatch) -> SinkBatch:
    ...         return batch.to("copies")
    >>> class CopyConnector(StreamConnector):
    ...     task = CopyTask
    ...
    ...     def output_topic(self, topic: str | None) -> str:
    ...         return "copies"  # known in advance, so that a config that reads it is refused
    """

    task: ClassVar[type[StreamTask]]  # type: ignore[assignment]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def output_topic(self, topic: str | None) -> str | None:
        """Return the topic that records of `topic` are written to, before `output.transforms`; None if records set it.

        With `topic` None, return the one topic that all records are written to, whatever topic they come from. A config
        is refused if a topic would be both read and written. If that is not known in advance, the task fails when
        a record would be written to a topic that it reads.
        """
        return None
