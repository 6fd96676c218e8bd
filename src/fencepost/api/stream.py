"""The contract of a stream: its tasks read topics, and write topics of the same cluster, exactly once (KIP-447)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from fencepost.api.sink import SinkConnector
from fencepost.record import Batch, SinkBatch, SinkRecord, TopicPartition

Rows = SinkBatch | Batch | Sequence[SinkBatch | Batch | SinkRecord] | None
"""What a task makes of a batch: records on their way to topics, as columns, several lots of them, or one by one."""


class StreamTaskContext(Protocol):
    """What the runtime offers a running task. For the task's thread."""

    @property
    def configs(self) -> Mapping[str, str]:
        """Return the task's properties."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are the task's now."""

    @property
    def is_stopping(self) -> bool:
        """Say whether the task should return from `process` by now."""

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Leave out a record of the batch that `process` was given: the config says whether it is logged, or written
        to a dead letter topic, in the transaction that passes it.

        Raises FatalError where errors are not tolerated: let it pass, the task fails.
        """


class StreamTask(ABC):
    """Makes records of records. All methods run in one thread of a slot, on a Spark executor.

    Order: construction, `initialize`, `start`, then `process` over and over, and `stop`. What `process` returns and the
    offsets of what it was given are committed in one transaction. After a crash, or once partitions have moved, what
    was not committed is given again, to some task: keep nothing that `process` would then count twice.
    """

    config: Any
    context: StreamTaskContext

    def initialize(self, context: StreamTaskContext, config: Any) -> None:
        """Keep `context` and `config` (the connector class, parsed from the task's properties)."""
        self.context = context
        self.config = config

    def start(self) -> None:
        """Open what is needed. An exception fails the task."""

    @abstractmethod
    def process(self, batch: SinkBatch) -> Rows:
        """Return what is written for a batch, to any topics; None for nothing.

        Say where records go: `batch.to(topic)`, `record.to(topic)`. They keep key, timestamp and headers unless they
        are given others; those of one partition of a topic are written in the order in which they are returned.

        Raises:
            RetriableError: the same records are given again a little later, in batches that may be cut otherwise.
            Exception: the task fails; nothing of this batch is written.
        """

    def stop(self) -> None:
        """Close what `start` opened."""


class StreamConnector(SinkConnector):
    """Plans the work of a stream. Its settings are its fields; the instance holds their values.

    To the worker, and to REST, it is a sink: it has `topics`, a consumer group among whose members partitions are
    divided, and that group's offsets.
    """

    task: ClassVar[type[StreamTask]]  # type: ignore[assignment]

    def output_topic(self, topic: str | None) -> str | None:
        """Return where records of a topic go, before `output.transforms`; None where each record says so.

        A topic of None asks for the one that all records go to, wherever they come from. The config is refused where
        what is read would be written to; where this is not known, the task fails when it comes to that.
        """
        return None
