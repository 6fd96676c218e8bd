"""The transactions of a stream's task: what is sent, committed with the offsets of what was read (E19)."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from fencepost.kafka.read.start_positions import StartPositions
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.task.delivery.topic_creation import TopicCreation
from fencepost.task.life.counters import StreamCounters
from fencepost.task.life.current_delivery import CurrentDelivery
from fencepost.task.life.reader_status import GroupReader, Offsets
from fencepost.task.life.task_run import TaskRun
from fencepost.task.sink.subscription import OutputGuard
from fencepost.task.stream.boundary import OpenTransactionState, StreamBoundary
from fencepost.task.stream.positions import StreamPositions
from fencepost.transaction import StaleMemberError


class StreamInput(GroupReader, Protocol):
    """Where records come from, such as `GroupInput`."""

    @property
    def starts(self) -> StartPositions:
        """Return what is known of the logs that are read."""

    def stored(self) -> Offsets:
        """Return the group's current offsets of the assignment."""


@dataclass
class StreamSender:
    """Sends the records of one task instance."""

    run: TaskRun[StreamCounters]
    current: CurrentDelivery[LanedDelivery]
    topics: TopicCreation
    guard: OutputGuard

    def ensure_ready(self, outgoing: Collection[Outgoing]) -> None:
        """Check and create the topics, and wait until a transaction can begin."""
        for each in outgoing:
            self.guard.ensure_open(each.topics)
            self.topics.ensure(each.topics)
        self.current.ensure_ready()

    def send(self, outgoing: Outgoing) -> None:
        if not outgoing.is_dead_letters:
            outgoing = self.run.tracing.stamped(outgoing)
        self.current.send(outgoing, lambda index: f"for topic {outgoing.topics[index]}")
        if outgoing.is_dead_letters:
            self.run.counters.sent_dead_letters(len(outgoing))
        else:
            self.run.counters.sent(len(outgoing), outgoing.topics)


class StreamTransactions:
    """Begins and commits the transactions of one task instance."""

    def __init__(
        self,
        run: TaskRun[StreamCounters],
        boundary: StreamBoundary,
        replace: Callable[[], tuple[LanedDelivery, bool]],
    ) -> None:
        self._run = run
        self._boundary = boundary
        self._replace = replace
        self.positions = StreamPositions()
        self.current = CurrentDelivery(run, self._replaced, self.positions.committed)
        self._begun_s: float | None = None  # when the current transaction began
        self._flush_due_s = time.monotonic() + run.spec.commits.offset_flush_interval_ms / 1000

    def start(self, input_: StreamInput, delivery: LanedDelivery) -> None:
        self._input, self.current.delivery = input_, delivery

    @property
    def is_open(self) -> bool:
        return self._begun_s is not None

    def begin(self) -> None:
        self._begun_s = self._begun_s or time.monotonic()

    def wait_s(self, most_s: float) -> float:
        """Return for how long no check is needed, at most `most_s`."""
        return most_s if self._begun_s is None else min(max(self._boundary.waits_s(self._begun_s), 0.0), most_s)

    def commit_if_due(self, taken: int) -> None:
        """Commit if it is time; `taken`: how many records the last fetch returned."""
        if self._begun_s is None:
            if time.monotonic() >= self._flush_due_s:
                self.commit_all()  # invisible records such as markers, and offsets that the group lacks
        elif self.current.delivery.is_full or self._boundary.is_due(self._state(self._begun_s, taken)):
            self.commit()
        elif not taken and self._boundary.commits_when_idle:
            self.current.learn(wait=True)
            self.commit()

    def _state(self, begun_s: float, taken: int) -> OpenTransactionState:
        has_more = taken >= self._run.spec.input.most_records
        return OpenTransactionState(begun_s, self._run.counters.in_transaction, self.positions.is_committing, has_more)

    def commit(self) -> None:
        """Hand the transaction over, with the offsets that the group does not have yet."""
        self._begun_s = None
        self._flush_due_s = time.monotonic() + self._run.spec.commits.offset_flush_interval_ms / 1000
        due = self.positions.due()
        if not due and self.current.delivery.is_open:
            due = dict(self.positions.sent)  # a recreated topic was read up to the offset where the old one ended
        if not due:
            return
        if not self.current.delivery.is_open:
            self.current.ensure_ready()
        begun_s = time.monotonic()
        known = self._input.starts.known
        offsets = [known.to_commit(place, offset) for place, offset in known.within(due).items()]
        self.current.delivery.commit_in_group(offsets, self._input.metadata)  # E19
        self.positions.hand_over(due)
        self._run.commit_begun(begun_s)

    def commit_all(self) -> None:
        """Commit what was sent, and wait for it."""
        self.commit()
        self.current.learn(wait=True)

    def _replaced(self) -> LanedDelivery:
        """Return other producers; after a strike only if the group has what this instance committed last."""
        delivery, is_struck = self._replace()
        if is_struck and self.positions.differ_from(self._input.stored()):
            raise StaleMemberError("the stored offsets differ from what this incarnation committed last")
        return delivery
