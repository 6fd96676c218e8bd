"""The loop of one stream task: read, convert, transform, process, and convert back; commit output with offsets.

The offsets of the records read are committed in the transaction of their output, with the group metadata as of the
assignment, so that the coordinator refuses a member of an older generation (E19, KIP-447). Nothing else commits offsets
here. Revoked partitions are granted once everything sent from them is committed. A failed commit fails the task's
instance, and the next one begins at the group's offsets.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from fencepost.api import RetriableError, StreamTask
from fencepost.kafka.setting.client_settings import most_record_bytes
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.record import TopicPartition
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.task.delivery.too_large import with_its_place
from fencepost.task.delivery.topic_creation import TopicCreation
from fencepost.task.failure.back_off import pause_after
from fencepost.task.failure.tolerance import StoppedInRetryError
from fencepost.task.life.counters import StreamCounters
from fencepost.task.sink.subscription import LoopGuard, ReadTopics
from fencepost.task.stream.boundary import OpenTransactionState, StreamBoundary
from fencepost.task.stream.context import StreamContext
from fencepost.task.stream.processing import StreamProcessor
from fencepost.transaction import ProduceError, StaleMemberError

log = logging.getLogger(__name__)

_MEASURE_S = 1.0
_LONGEST_POLL_S = 0.1  # a stop or a pause takes effect between polls
_PAUSES_S = (0.1, 0.3, 1.0, 3.0)

Offsets = Mapping[TopicPartition, int]


class StreamInput(Protocol):
    """Where records come from, such as `GroupInput`."""

    @property
    def assignment(self) -> frozenset[TopicPartition]: ...

    @property
    def metadata(self) -> Any: ...

    def poll(self, timeout_s: float, most: int) -> Fetched: ...

    def seek(self, offsets: Offsets) -> None: ...

    def pause(self, partitions: Collection[TopicPartition]) -> None: ...

    def stored(self) -> Offsets:
        """Return the group's current offsets of the assignment."""

    def known_ends(self) -> Offsets: ...

    def close(self) -> None: ...


class StreamLoop:
    """Runs one task instance. It is the group member's listener for assignments.

    `replace` retires a delivery and returns its admitted successor, and whether it was struck (E5).
    """

    def __init__(
        self,
        spec: TaskSpec,
        task: StreamTask,
        context: StreamContext,
        processor: StreamProcessor,
        boundary: StreamBoundary,
        control: Control,
        counters: StreamCounters,
        topics: TopicCreation,
        replace: Callable[[], tuple[LanedDelivery, bool]],
        report_state: Callable[[RunState], None],
    ) -> None:
        self._spec = spec
        self._task = task
        self._context = context
        self._processor = processor
        self._boundary = boundary
        self._control = control
        self._counters = counters
        self._topics = topics
        self._replace_delivery = replace
        self._report_state = report_state
        self._guard = LoopGuard(ReadTopics.of(spec))
        self._positions = StreamPositions()
        self._begun_s: float | None = None  # when the current transaction began
        self._flush_due_s = time.monotonic() + spec.commits.offset_flush_interval_ms / 1000
        self._measure_due_s = 0.0
        self._is_paused = False
        self._is_to_begin = False  # a partition begins at the end of its log, which is not committed yet
        self._is_over = False  # nothing more is committed
        self._is_lost = False
        self._has_failed = False
        self._refusals = 0

    def run(self, input_: StreamInput, delivery: LanedDelivery) -> None:
        """Move data until asked to stop. Errors of task, conversion and Kafka propagate, and nothing is committed."""
        self._input, self._delivery = input_, delivery
        try:
            self._take_turns()
            self._commit_all()
        except BaseException:
            self._is_over = True
            if self._is_lost:  # the client has rejoined by itself, and no one would use its new assignment
                self._input.close()
            self._learn(wait=True)  # if a commit has failed, its error is the cause, and decides what happens next
            raise
        finally:
            self._is_over = True
            self._counters.dropped()

    def _take_turns(self) -> None:
        try:
            while not self._control.is_stopping:
                self._turn()
        except StoppedInRetryError as error:
            log.info("task %s stops before the batch that it was processing is sent: %s", self._spec.id, error)

    def _turn(self) -> None:
        self._learn(wait=False)
        if time.monotonic() >= self._measure_due_s:
            self._measure()
        self._follow_pause()
        self._input.pause(self._input.assignment if self._is_paused else ())
        fetched = self._input.poll(self._wait_s(), self._spec.input.most_records)
        if self._is_paused or self._is_to_begin:
            if len(fetched):
                self._input.seek(fetched.first_offsets())
            if self._is_to_begin:
                self._is_to_begin = False
                self._commit_all()
            return
        if len(fetched):
            self._take(fetched)
        else:
            self._positions.reach(fetched.ends)
        self._maybe_commit(len(fetched))

    def _wait_s(self) -> float:
        if self._begun_s is None:
            return _LONGEST_POLL_S
        return min(max(self._boundary.waits_s(self._begun_s), 0.0), _LONGEST_POLL_S)

    def _measure(self) -> None:
        self._measure_due_s = time.monotonic() + _MEASURE_S
        self._counters.partition_count = len(self._positions.sent)
        self._counters.lag_max = self._positions.lag(self._input.known_ends())

    # records

    def _take(self, fetched: Fetched) -> None:
        started = time.monotonic()
        try:
            outgoing = self._processed(fetched)
        except RetriableError as error:
            self._try_again(fetched, error)
            return
        self._refusals = 0
        self._counters.polled(len(fetched), time.monotonic() - started)
        self._ensure_ready(outgoing)
        self._begun_s = self._begun_s or time.monotonic()
        for each in outgoing:
            self._send(each)
        self._positions.take(fetched)

    def _processed(self, fetched: Fetched) -> list[Outgoing]:
        self._context.assignment = self._input.assignment
        batch = self._processor.read(fetched)
        return self._processor.written(self._task.process(batch) if len(batch) else None)

    def _try_again(self, fetched: Fetched, error: Exception) -> None:
        """Fetch the same records again later; what was sent before them is committed without delay."""
        if self._begun_s is not None:
            self._commit()
        pause_s = pause_after(self._refusals, _PAUSES_S)
        log.warning("task %s: process failed and will be retried in %g s: %s", self._spec.id, pause_s, error)
        self._refusals += 1
        self._counters.errors.retries += 1
        self._input.seek(fetched.first_offsets())
        self._control.back_off(pause_s)

    def _ensure_ready(self, outgoing: Sequence[Outgoing]) -> None:
        for each in outgoing:
            self._guard.ensure_not_read(each.topics)
            self._topics.ensure(each.topics)
        if not self._delivery.is_ready():
            self._replace()

    def _send(self, outgoing: Outgoing) -> None:
        try:
            self._delivery.send(outgoing)
        except ProduceError as error:
            most_bytes = most_record_bytes(self._spec.output.producer_conf)
            raise with_its_place(error, outgoing, most_bytes, lambda i: f"for topic {outgoing.topics[i]}") from None
        if outgoing.is_dead_letters:
            self._counters.sent_dead_letters(len(outgoing))
        else:
            self._counters.sent(len(outgoing), outgoing.topics)

    # commits

    def _maybe_commit(self, taken: int) -> None:
        if self._begun_s is None:
            if time.monotonic() >= self._flush_due_s:
                self._commit_all()  # invisible records such as markers, and offsets that the group lacks
        elif self._delivery.is_full or self._boundary.is_due(self._written(self._begun_s, taken)):
            self._commit()
        elif not taken and self._boundary.commits_when_idle:
            self._learn(wait=True)
            self._commit()

    def _written(self, begun_s: float, taken: int) -> OpenTransactionState:
        has_more = taken >= self._spec.input.most_records
        return OpenTransactionState(begun_s, self._counters.in_transaction, self._positions.is_committing, has_more)

    def _commit(self) -> None:
        """Hand the transaction over, with the offsets that the group does not have yet."""
        self._begun_s = None
        self._flush_due_s = time.monotonic() + self._spec.commits.offset_flush_interval_ms / 1000
        due = self._positions.due()
        if not due and self._delivery.is_open:
            due = dict(self._positions.sent)  # a recreated topic was read up to the offset where the old one ended
        if not due:
            return
        if not self._delivery.is_open and not self._delivery.is_ready():
            self._replace()
        begun_s = time.monotonic()
        positions = [GroupOffset(*place, offset) for place, offset in due.items()]
        self._delivery.commit_in_group(positions, self._input.metadata)  # E19
        self._positions.hand_over(due)
        self._counters.commit_begun(begun_s)

    def _commit_all(self) -> None:
        """Commit what was sent, and wait for it."""
        self._commit()
        self._learn(wait=True)

    def _learn(self, *, wait: bool) -> None:
        """Handle the commits that have ended. Raises the error of a failed one."""
        while ended_s := self._finished(wait):
            for one_s in ended_s:
                self._positions.committed()
                self._counters.committed(one_s)

    def _finished(self, is_waited_for: bool) -> Sequence[float]:
        try:
            return self._delivery.finished(wait=is_waited_for)
        except Exception:
            if not self._has_failed:  # count it once: later commits fail with it, and this is called again
                self._has_failed = True
                self._counters.commit_failed()
            raise

    def _replace(self) -> None:
        """Continue with other producers; after a strike only if the group has what this instance committed last."""
        self._learn(wait=True)
        self._delivery, is_struck = self._replace_delivery()
        if is_struck and self._positions.differ_from(self._input.stored()):
            raise StaleMemberError("the stored offsets differ from what this incarnation committed last")

    # pausing

    def _follow_pause(self) -> None:
        if self._is_paused is not self._control.is_paused:
            self._is_paused = self._control.is_paused
            if self._is_paused:
                self._commit_all()
            self._report_state(RunState.PAUSED if self._is_paused else RunState.RUNNING)

    # the group's assignment

    def assigned(self, positions: Offsets, fresh: Collection[TopicPartition]) -> Offsets:
        """Begin at the group's offsets. If it has none, the end of the log is committed before any record is taken.

        Otherwise the next start would begin at a later end, and skip the records in between.
        """
        self._positions.begin(positions, fresh)
        if fresh and self._spec.input.consumer_conf.get("auto.offset.reset") == "latest":
            self._is_to_begin = True
        return {}

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit everything that was sent before another member gets the partitions.

        If that fails, nothing was committed, or the next member waits until the outcome is known (E19).
        """
        try:
            if not self._is_over:
                self._commit_all()
        except Exception:
            self._is_over = True
            raise
        finally:
            self._positions.forget(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Send nothing more: other members already have the partitions, and commits in progress will be refused."""
        is_writing = self._begun_s is not None or self._positions.is_committing
        self._positions.forget(partitions)
        if is_writing and not self._is_over:
            self._is_over = self._is_lost = True
            raise StaleMemberError(f"task {self._spec.id} has lost its partitions to other members")


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

    def lag(self, ends: Offsets) -> int:
        """Return the lag of the partition with the most, in records."""
        return max((end - self.sent[place] for place, end in ends.items() if place in self.sent), default=0)
