"""Tasks that read as members of a group: their topics, and reports about their progress."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from fencepost.api import FatalError
from fencepost.builtin.transform.java_regex import JavaPattern, compiled
from fencepost.config.cluster import ALL_OPEN, CLOSED, ClosedTopics
from fencepost.kafka.errors import KafkaRequestError
from fencepost.kafka.read.assignment import Assignee
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.read.known_positions import PositionReader, StartPositions
from fencepost.kafka.setting.batch_settings import lacking_to_read
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition, distinct
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.failure.tolerance import pause_after
from fencepost.task.start.run import SinkCounters, TaskRun

log = logging.getLogger(__name__)

_MEASURE_S = 1.0

Offsets = Mapping[TopicPartition, int]


class GroupReader(Protocol):
    """Where records come from, such as `GroupInput`."""

    @property
    def assignment(self) -> frozenset[TopicPartition]: ...

    @property
    def metadata(self) -> Any: ...

    @property
    def starts(self) -> StartPositions:
        """Return the known starts of the logs that are read."""

    def poll(self, timeout_s: float, most: int) -> Fetched: ...

    def seek(self, offsets: Offsets) -> None: ...

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these partitions, and resume all others."""

    def known_ends(self) -> Offsets:
        """Return the ends of the assignment's logs as of the last fetch, without a request."""

    def close(self) -> None: ...


class ReaderStatus:
    """The status of one task instance. Used by the task's thread."""

    def __init__(self, run: TaskRun[SinkCounters]) -> None:
        self._run = run
        self.is_paused = False
        self._measure_due_s = 0.0

    def follow_pause(self, before_pause: Callable[[], None] = lambda: None) -> None:
        """Pause or resume as the worker wants, and report it."""
        if self.is_paused is not self._run.control.is_paused:
            self.is_paused = self._run.control.is_paused
            if self.is_paused:
                before_pause()
            self._run.report_state(RunState.PAUSED if self.is_paused else RunState.RUNNING)

    def measure(self, positions: Offsets, reader: GroupReader) -> None:
        """Count the partitions, and the lag of the one with the most, once a second."""
        if time.monotonic() >= self._measure_due_s:
            self._measure_due_s = time.monotonic() + _MEASURE_S
            self._run.counters.partition_count = len(positions)
            lags = [end - positions[place] for place, end in reader.known_ends().items() if place in positions]
            self._run.counters.lag_max = max(lags, default=0)


_FIRST_RECORDS = 500
_SHORT_S, _LONG_S = 0.05, 0.2
_PAUSES_S = (0.1, 0.3, 1.0, 3.0)


class BatchSize:
    """How many records the next batch may have: twice as many after a full batch that took a short time.

    A batch costs about 0.6 ms whatever its size. A task that waits for each of its records keeps small batches, so that
    it polls in time (`max.poll.interval.ms`).
    """

    def __init__(self, most: int) -> None:
        """`most` is never exceeded."""
        self._most = most
        self._least = self.records = min(_FIRST_RECORDS, most)
        self._refusals = 0  # in a row

    def accepted(self) -> None:
        """Count refusals from 0 again."""
        self._refusals = 0

    def refused(self) -> float:
        """Return how many seconds to wait. Batches are small again: of fewer records, fewer are refused with one."""
        self.records = self._least
        self._refusals += 1
        return pause_after(self._refusals - 1, _PAUSES_S)

    def took(self, count: int, time_s: float) -> None:
        """Adapt to a batch of `count` records that was not refused."""
        self.accepted()
        if time_s > _LONG_S:
            self.records = max(self.records // 2, self._least)
        elif count >= self.records and time_s < _SHORT_S:
            self.records = min(2 * self.records, self._most)


@dataclass(frozen=True)
class ReadTopics:
    """Topics by name, and those that match a Java regular expression; if it is empty, none.

    Nothing `closed` is read, not by its name either.
    """

    names: tuple[str, ...]
    pattern: str = ""
    closed: ClosedTopics = ALL_OPEN

    @classmethod
    def of(cls, spec: TaskSpec) -> "ReadTopics":
        """Return the topics that a task reads, including the topic for resent dead letters."""
        own = (spec.input.resend_topic,) if spec.input.resend_topic else ()
        closed = ClosedTopics(spec.look_up.closed.reads)
        if spec.input.topics_regex:
            return cls(own, spec.input.topics_regex, closed)
        return cls((*spec.input.topics, *own), closed=closed)

    @cached_property
    def _compiled(self) -> JavaPattern:
        return compiled(self.pattern)

    def has(self, topic: str) -> bool:
        if self.closed.has(topic):
            return False
        return topic in self.names or (bool(self.pattern) and self._compiled.fullmatch(topic) is not None)


class OutputGuard:
    """Keeps a stream from writing to a topic that it reads, as it would read its output again, for ever; and to one
    that is closed to connectors.
    """

    def __init__(self, read: ReadTopics, closed: ClosedTopics) -> None:
        self._read = read
        self._closed = closed
        self._known: set[str] = set()

    @classmethod
    def of(cls, spec: TaskSpec) -> "OutputGuard":
        return cls(ReadTopics.of(spec), ClosedTopics(spec.look_up.closed.writes))

    def to_json(self) -> dict[str, Any]:
        read = self._read
        return {"names": list(read.names), "pattern": read.pattern, "closed": list(self._closed.names)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "OutputGuard":
        return cls(ReadTopics(tuple(data["names"]), data["pattern"]), ClosedTopics(tuple(data["closed"])))

    def ensure_open(self, topics: Sequence[str]) -> None:
        """Raise FatalError if one of these topics may not be written to; call it before anything is sent there."""
        for topic in sorted(distinct(topics) - self._known):
            if self._closed.has(topic):
                raise FatalError(f"a record would go to topic {topic}: {CLOSED}. Nothing was written to the topic")
            if self._read.has(topic):
                how = f"topics.regex={self._read.pattern}" if topic not in self._read.names else "its topics"
                raise FatalError(
                    f"a record would go to topic {topic}, which this stream reads ({how}): it would be read again, "
                    "for ever. Nothing was written to the topic. Send the record to another topic, or read fewer topics"
                )
            self._known.add(topic)


def member_of(spec: TaskSpec, assignee: Assignee, positions: PositionReader | None = None) -> GroupInput:
    """Return the group's member: one that reads whole batches if it supports all the settings, else one by records.

    `positions` reads the group's offsets in place of the client. Raises KafkaRequestError for settings that neither
    supports.
    """
    conf, topics, whole = spec.input.consumer_conf, subscription(spec), (spec.input.resend_topic,)
    why = ", ".join(lacking_to_read(conf))
    if not why:
        from fencepost.kafka.read.group_batches import BatchGroupInput  # Arrow, for those who use it

        try:
            return BatchGroupInput(conf, topics, assignee, whole=whole, positions=positions)
        except KafkaRequestError as error:
            why = str(error)
    log.info("task %s reads record by record, because of %s", spec.id, why)
    return GroupInput(conf, topics, assignee, whole=whole, positions=positions)


def subscription(spec: TaskSpec) -> Sequence[str] | Callable[[str], object]:
    """Return the topics that a task reads: names, or a predicate on names."""
    read = ReadTopics.of(spec)
    return read.has if read.pattern else read.names
