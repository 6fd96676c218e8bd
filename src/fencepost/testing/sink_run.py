"""One life of a sink's or a stream's task in this process, without Kafka: what it takes, what it lets be committed,
and a crash.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from fencepost.api import (
    FencingToken,
    RetriableError,
    SinkBatch,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceRecord,
    StreamConnector,
    StreamTask,
    TopicPartition,
)
from fencepost.task.control import Control
from fencepost.task.sink.context import SinkContext, SinkInput
from fencepost.task.stream.processing import StreamContext, batches_of
from fencepost.testing.source_run import ensure_runnable, task_configs


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


Log = Mapping[TopicPartition, Sequence[SinkRecord]]
"""Topics as a sink reads them: the records of each partition, in the order of their offsets, which begin with 0."""

_MOST_RETRIES = 20
_FIRST_TOKEN = FencingToken(1, 1)


def log_of(values: Iterable[Any], *, topic: str = "testing", partitions: int = 2) -> dict[TopicPartition, list[Any]]:
    """Return a log in which the values take turns between the partitions of a topic.

    >>> from fencepost.testing import log_of
    >>> [[record.value for record in records] for records in log_of("abc").values()]
    [['a', 'c'], ['b']]
    """
    log: dict[TopicPartition, list[Any]] = {TopicPartition(topic, number): [] for number in range(partitions)}
    places = list(log)
    for number, value in enumerate(values):
        place = places[number % partitions]
        log[place].append(SinkRecord(*place, len(log[place]), value, timestamp=1_700_000_000_000 + number, at=place))
    return log


class SinkRun:
    """One start of a task. Batches are put and offsets committed when the test says so, not in a loop.

    `committed` are the group's offsets: give the same dict to the next life. `token` is the task's fencing token.
    `topic_ids` are the ids of topics, which the task may ask for.

    >>> from fencepost.testing import SinkRun, log_of
    >>> from fencepost.api import SinkBatch, SinkConnector, SinkTask
    >>> written = []
    >>> class ListTask(SinkTask):
    ...     def put(self, batch: SinkBatch) -> None:
    ...         written.extend(batch.values)
    >>> class ListConnector(SinkConnector):
    ...     task = ListTask
    >>> log = log_of(["a", "b", "c"], partitions=1)
    >>> run = SinkRun(ListConnector)
    >>> run.open(*log)
    >>> run.deliver(log, 2)
    2
    >>> run.commit()
    >>> {str(place): offset for place, offset in run.committed.items()}
    {'testing-0': 2}
    """

    def __init__(
        self,
        connector: type[SinkConnector],
        config: Mapping[str, object] | None = None,
        *,
        committed: dict[TopicPartition, int] | None = None,
        token: FencingToken = _FIRST_TOKEN,
        task_config: Mapping[str, str] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> None:
        ensure_runnable(connector, SinkConnector)
        own = dict(task_config or task_configs(connector, config)[0])
        self.committed = {} if committed is None else committed
        self.positions: dict[TopicPartition, int] = {}
        self.control = Control(is_paused=False)
        self.task: SinkTask[Any] = connector.task()
        self.taken: dict[TopicPartition, int] = {}
        """The offsets below which the task has taken the records."""
        self._is_over = False
        self._context = SinkContext(own, self.control, token.task_generation)
        self._member = _Member(token.group_generation, topic_ids or {})
        self._context.reading = cast("SinkInput", self._member)
        self.task.initialize(self._context, connector(own))
        self.task.start()

    def open(self, *partitions: TopicPartition) -> None:
        """Give partitions to the task. It continues at the committed offsets, or where it seeks."""
        self._member.assignment |= frozenset(partitions)
        self.task.open(sorted(partitions))
        for place in partitions:
            self.positions[place] = self.committed.get(place, 0)
        self.positions.update(self._context.take_rewinds(partitions))

    def reset(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read on at these offsets, as when topics were created again, and commit them, as with `latest`."""
        self.positions.update(positions)
        self.taken.update(positions)
        self._context.resets.update(positions)
        self.commit()

    def deliver(self, log: Log, count: int | None = None) -> int:
        """Put the next records of the task's partitions, up to `count` of each, and return how many there were."""
        batch: list[SinkRecord] = []
        for place, position in self.positions.items():
            records = log[place][position:] if count is None else log[place][position : position + count]
            batch += records
            if records:
                self.taken[place] = self.positions[place] = position + len(records)
        if batch:
            self._put(batch)
        return len(batch)

    def deliver_nothing(self) -> None:
        """Put an empty batch, as the runtime does soon after `open` and when nothing comes."""
        self._put([])

    def let_commit(self) -> Mapping[TopicPartition, int]:
        """Return the offsets that the task lets be committed now. Nothing is committed yet."""
        return self.task.pre_commit(dict(self.taken))

    def commit(self) -> None:
        """Commit what the task lets be committed, and like the runtime nothing that it has not taken."""
        self.committed.update(self._flushed(self.taken))

    def _flushed(self, covered: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return what may be committed of this."""
        allowed = self.task.pre_commit(dict(covered))
        return {p: offset for p, offset in allowed.items() if offset <= covered.get(p, -1)}

    def close(self, *partitions: TopicPartition) -> None:
        """Take these partitions from the task, and commit what it has flushed of them."""
        flushed = self._flushed({place: self.taken[place] for place in partitions if place in self.taken})
        self.task.close(sorted(partitions))
        self.committed.update(flushed)
        self._member.assignment -= frozenset(partitions)
        for place in partitions:
            self.positions.pop(place)
            self.taken.pop(place, None)

    def stop(self) -> None:
        """Commit, and stop the task as the runtime does."""
        if not self._is_over:
            self.close(*self.positions)
            self._is_over = True
            self.control.stop()
            self.task.stop()

    def crash(self) -> None:
        """End this life as `kill -9` does: nothing of the task is called any more."""
        self._is_over = True
        self.control.stop()

    def _put(self, batch: Sequence[SinkRecord]) -> None:
        for _ in range(_MOST_RETRIES):
            try:
                self.task.put(SinkBatch.of_records(batch))
                break
            except RetriableError as error:
                last = error
        else:
            raise last
        self.positions.update(self._context.take_rewinds(list(self.positions)))


class _Member:
    """What the context asks of the task's membership of its group; the test says what is read and committed."""

    metadata: Any = None

    def __init__(self, generation: int, topic_ids: Mapping[str, str]) -> None:
        self.generation = generation
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.edges = self
        self._topic_ids = topic_ids

    def topic_id(self, topic: str) -> str:
        return self._topic_ids.get(topic, "")
