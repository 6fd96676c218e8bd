"""One life of a stream's task in this process, without Kafka."""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.api import SinkBatch, SinkRecord, SourceRecord, StreamConnector, StreamTask, TopicPartition
from fencepost.task.control import Control
from fencepost.task.stream.processing import StreamContext, batches_of
from fencepost.testing.runnable import ensure_runnable
from fencepost.testing.source_run import task_configs


class StreamRun:
    """One start of a task, which is given batches by the test.

    >>> from fencepost.builtin.connector.topic import TopicTransformConnector
    >>> from fencepost.testing import StreamRun, log_of
    >>> run = StreamRun(TopicTransformConnector, {"topics": "testing", "output.topic": "copies"})
    >>> [(record.topic, record.value) for record in run.process(log_of("ab", partitions=1)["testing", 0])]
    [('copies', 'a'), ('copies', 'b')]
    """

    def __init__(
        self,
        connector: type[StreamConnector],
        config: Mapping[str, object] | None = None,
        *,
        assignment: Sequence[TopicPartition] = (),
        task_config: Mapping[str, str] | None = None,
    ) -> None:
        ensure_runnable(connector, StreamConnector)
        own = dict(task_config or task_configs(connector, config)[0])
        self.reported: list[tuple[SinkRecord, Exception]] = []
        """The records that the task could not process, and why."""
        self.control = Control(is_paused=False)
        self.task: StreamTask[Any] = connector.task()
        context = StreamContext(own, self.control, lambda record, error: self.reported.append((record, error)))
        context.assignment = frozenset(assignment)
        self.task.initialize(context, connector(own))
        self.task.start()

    def process(self, records: Sequence[SinkRecord]) -> list[SourceRecord]:
        """Return the records that the task writes for a batch. Raises FatalError for anything but rows."""
        written = self.task.process(SinkBatch.of_records(records))
        return [record for batch in batches_of(written) for record in batch.records()]

    def stop(self) -> None:
        """Stop the task as the runtime does."""
        self.control.stop()
        self.task.stop()
