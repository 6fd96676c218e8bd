"""The loop of one stream task: read, convert, transform, process, and convert back; commit output with offsets.

The offsets of the records read are committed in the transaction of their output, with the group metadata as of the
assignment, so that the coordinator refuses a member of an older generation (E19, KIP-447). Nothing else commits offsets
here. Revoked partitions are granted once everything sent from them is committed. A failed commit fails the task's
instance, and the next one begins at the group's offsets.
"""

import logging
from collections.abc import Callable, Collection
from enum import Enum, auto

from fencepost.api import RetriableError
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.topic_creation import TopicCreation
from fencepost.task.failure.tolerance import StoppedInRetryError
from fencepost.task.sink.loop import LONGEST_POLL_S
from fencepost.task.sink.reader import Offsets, OutputGuard, ReaderStatus
from fencepost.task.start.counters import StreamCounters
from fencepost.task.start.run import TaskRun
from fencepost.task.stream.processing import StreamStep
from fencepost.task.stream.transactions import StreamBoundary, StreamInput, StreamSender, StreamTransactions
from fencepost.transaction import StaleMemberError

log = logging.getLogger(__name__)

_PROCESS = "process"


class _Phase(Enum):
    RUNNING = auto()
    LOST = auto()  # partitions were lost while records were sent: nothing more is committed
    OVER = auto()  # nothing more is committed


class StreamLoop:
    """Runs one task instance. It is the group member's listener for assignments."""

    def __init__(
        self,
        run: TaskRun[StreamCounters],
        step: StreamStep,
        boundary: StreamBoundary,
        topics: TopicCreation,
        replace: Callable[[], tuple[LanedDelivery, bool]],
    ) -> None:
        """`replace` retires a delivery and returns its admitted successor, and whether it was struck (E5)."""
        self._run = run
        self._step = step
        self._transactions = StreamTransactions(run, boundary, replace)
        guard = OutputGuard.of(run.spec)
        self._sender = StreamSender(run, self._transactions.current, topics, guard)
        self._status = ReaderStatus(run)
        self._phase = _Phase.RUNNING
        self._is_to_begin = False  # a partition begins at the end of its log, which is not committed yet

    def run(self, input_: StreamInput, delivery: LanedDelivery) -> None:
        """Move data until asked to stop. Errors of task, conversion and Kafka propagate, and nothing is committed."""
        self._input = input_
        self._transactions.start(input_, delivery)
        try:
            self._take_turns()
            self._transactions.commit_all()
        except BaseException:
            if self._phase is _Phase.LOST:  # the client has rejoined by itself: its assignment would not be used
                self._input.close()
            self._phase = _Phase.OVER
            # If a commit has failed, its error is the cause, and decides what happens next.
            self._transactions.current.learn(wait=True)
            raise
        finally:
            self._phase = _Phase.OVER
            self._run.counters.dropped()
            self._run.tracing.dropped()

    def _take_turns(self) -> None:
        try:
            while not self._run.control.is_stopping:
                self._run.control.move()
                self._turn()
        except StoppedInRetryError as error:
            log.info("task %s stops before the batch that it was processing is sent: %s", self._run.spec.id, error)

    def _turn(self) -> None:
        transactions, status = self._transactions, self._status
        transactions.current.learn(wait=False)
        status.measure(transactions.positions.sent, self._input)
        status.follow_pause(before_pause=transactions.commit_all)
        self._input.pause(self._input.assignment if status.is_paused else ())
        fetched = self._input.poll(transactions.wait_s(LONGEST_POLL_S), self._run.spec.input.most_records)
        if status.is_paused or self._is_to_begin:
            if len(fetched):
                self._input.seek(fetched.first_offsets())
            if self._is_to_begin:
                self._is_to_begin = False
                transactions.commit_all()
            return
        if len(fetched):
            self._take(fetched)
        else:
            transactions.positions.reach(fetched.ends)
        transactions.commit_if_due(len(fetched))

    def _take(self, fetched: Fetched) -> None:
        with self._run.tracing.processing(fetched):
            self._process(fetched)

    def _process(self, fetched: Fetched) -> None:
        try:
            outgoing = self._step.run(fetched, self._input.assignment)
        except RetriableError as error:
            self._run.tracing.refused(error)
            self._try_again(fetched, error)
            return
        self._run.counters.errors.retried.passed(_PROCESS)
        self._sender.ensure_ready(outgoing)
        self._transactions.begin()
        for each in outgoing:
            self._sender.send(each)
        self._transactions.positions.take(fetched)

    def _try_again(self, fetched: Fetched, error: Exception) -> None:
        """Fetch the same records again later; what was sent before them is committed without delay."""
        if self._transactions.is_open:
            self._transactions.commit()
        pause_s = self._step.refused()
        if self._run.counters.errors.retried.met(_PROCESS, error):
            log.warning("task %s: process failed and will be retried in %g s: %s", self._run.spec.id, pause_s, error)
        self._input.seek(fetched.first_offsets())
        self._run.control.back_off(pause_s)

    # the group's assignment

    def assigned(self, positions: Offsets, fresh: Collection[TopicPartition]) -> Offsets:
        """Begin at the group's offsets.

        If a partition has none and `auto.offset.reset` is `latest`, the end of its log is committed before any record
        is taken: a restart before the first commit would begin at a later end, and skip the records in between.
        """
        self._transactions.positions.begin(positions, fresh)
        if fresh and self._run.spec.input.consumer_conf.get("auto.offset.reset") == "latest":
            self._is_to_begin = True
        return {}

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit everything that was sent before another member gets the partitions.

        If that fails, nothing was committed, or the next member waits until the outcome is known (E19).
        """
        try:
            if self._phase is _Phase.RUNNING:
                self._transactions.commit_all()
        except Exception:
            self._phase = _Phase.OVER
            raise
        finally:
            self._transactions.positions.forget(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Send nothing more: other members already have the partitions, and commits in progress will be refused."""
        is_writing = self._transactions.is_open or self._transactions.positions.is_committing
        self._transactions.positions.forget(partitions)
        if is_writing and self._phase is _Phase.RUNNING:
            self._phase = _Phase.LOST
            raise StaleMemberError(f"task {self._run.spec.id} has lost its partitions to other members")
