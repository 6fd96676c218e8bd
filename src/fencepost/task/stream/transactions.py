"""The transactions of a stream's task: its output, committed with the offsets of its input (E19)."""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition
from fencepost.task.delivery.delivery import TopicCreation
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.task.sink.reader import GroupReader, Offsets, OutputGuard
from fencepost.task.start.run import CurrentDelivery, StreamCounters, TaskRun
from fencepost.transaction import StaleMemberError

_MOST_RECORDS = 20_000
_CATCHES_UP_S = 0.05


@dataclass(frozen=True, slots=True)
class OpenTransactionState:
    """The state of a transaction that began at `begun_s` (`time.monotonic`).

    `is_committing`: the transaction before it is not committed yet. `has_more`: the last batch was as large as
    possible, so the next one is already waiting.
    """

    begun_s: float
    records: int
    is_committing: bool = False
    has_more: bool = False


class StreamBoundary(ABC):
    """Decides when the current transaction is handed over. The task's thread asks after each batch."""

    commits_when_idle = False
    """Whether a transaction also ends when nothing more waits to be read, once the one before it is committed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

    @abstractmethod
    def is_due(self, written: OpenTransactionState) -> bool:
        """Say whether the transaction is to be handed over now."""

    @abstractmethod
    def waits_s(self, begun_s: float) -> float:
        """Return for how long no check is needed."""


class StreamPollBoundary(StreamBoundary):
    """Each batch is a transaction; batches that come during a commit, or already wait, are combined."""

    commits_when_idle = True

    def is_due(self, written: OpenTransactionState) -> bool:
        if written.records >= _MOST_RECORDS:
            return True
        catches_up = written.has_more and self._clock() - written.begun_s < _CATCHES_UP_S
        return not (written.is_committing or catches_up)

    def waits_s(self, begun_s: float) -> float:
        return 0.0


class StreamIntervalBoundary(StreamBoundary):
    """A transaction ends `interval_s` after its first record was sent."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._interval_s = interval_s

    def is_due(self, written: OpenTransactionState) -> bool:
        return self.waits_s(written.begun_s) <= 0

    def waits_s(self, begun_s: float) -> float:
        return begun_s + self._interval_s - self._clock()


def stream_boundary_of(name: str, interval_ms: int) -> StreamBoundary:
    """Return the boundary with this name: poll or interval."""
    return StreamIntervalBoundary(interval_ms / 1000) if name == "interval" else StreamPollBoundary()


class StreamPositions:
    """The positions of a stream's task in its partitions: sent, handed over, and committed."""

    def __init__(self) -> None:
        self.sent: dict[TopicPartition, int] = {}  # the next offset whose record is in no transaction yet
        self._handed: dict[TopicPartition, int] = {}  # as of the transactions handed over; missing if there are none
        self._committed: dict[TopicPartition, int] = {}  # by this instance
        self._begun: deque[Offsets] = deque()

    @property
    def is_committing(self) -> bool:
        """Say whether a commit has begun whose outcome is not known yet."""
        return bool(self._begun)

    def begin(self, positions: Offsets, fresh: Collection[TopicPartition]) -> None:
        """Add partitions.

        Offsets that the group lacks are due even without records: else its next member would reset.
        """
        self.sent.update(positions)
        self._handed.update((place, offset) for place, offset in positions.items() if place not in fresh)

    def restart(self, positions: Offsets) -> None:
        """Go on at these offsets instead. They are due, whatever the group has."""
        for place, offset in positions.items():
            if place in self.sent:
                self.sent[place] = offset
                self._handed.pop(place, None)
                self._committed.pop(place, None)  # the broker deletes it with a topic

    def take(self, fetched: Fetched) -> None:
        self._advance(fetched.next_offsets())
        self.reach(fetched.ends)

    def reach(self, ends: Offsets) -> None:
        """Count invisible records, such as transaction markers, as sent."""
        self._advance({place: end for place, end in ends.items() if end > self.sent.get(place, end)})

    def _advance(self, offsets: Offsets) -> None:
        self.sent.update((place, offset) for place, offset in offsets.items() if place in self.sent)

    def due(self) -> dict[TopicPartition, int]:
        return {place: offset for place, offset in self.sent.items() if self._handed.get(place) != offset}

    def hand_over(self, offsets: Offsets) -> None:
        self._begun.append(offsets)
        self._handed.update(offsets)

    def committed(self) -> None:
        """Record that the oldest commit begun has succeeded."""
        self._committed.update(self._begun.popleft())

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        for place in partitions:
            for offsets in (self.sent, self._handed, self._committed):
                offsets.pop(place, None)

    def differ_from(self, stored: Offsets) -> bool:
        return any(stored.get(place) != offset for place, offset in self._committed.items())


class StreamInput(GroupReader, Protocol):
    """Where records come from, such as `GroupInput`."""

    def stored(self) -> Offsets:
        """Return the group's current offsets of the assignment."""

    def topics_check(self) -> Callable[[], None]:
        """Return a function that raises RetriableError if a topic was created again since it was read. For any thread.

        Between the last record that was read and the commit (decision 0106).
        """


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

    def commit_if_due(self, taken: int, *, has_more: bool) -> None:
        """Commit if it is time; `taken`: how many records the last fetch returned; `has_more`: as many as it could."""
        if self._begun_s is None:
            if time.monotonic() >= self._flush_due_s:
                self.commit_all()  # invisible records such as markers, and offsets that the group lacks
        elif self.current.delivery.is_full or self._boundary.is_due(self._state(self._begun_s, has_more=has_more)):
            self.commit()
        elif not taken and self._boundary.commits_when_idle:
            self.current.learn(wait=True)
            self.commit()

    def _state(self, begun_s: float, *, has_more: bool) -> OpenTransactionState:
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
        check = self._input.topics_check()
        self.current.delivery.commit_in_group(offsets, self._input.metadata, check)  # E19
        self.positions.hand_over(due)
        self._run.commit_begun(begun_s)

    def commit_all(self) -> None:
        """Commit the records sent, and wait for it."""
        self.commit()
        self.current.learn(wait=True)

    def _replaced(self) -> LanedDelivery:
        """Return other producers; after a strike only if the group has what this instance committed last."""
        delivery, is_struck = self._replace()
        if is_struck and self.positions.differ_from(self._input.stored()):
            raise StaleMemberError("the stored offsets differ from what this incarnation committed last")
        return delivery
