"""The life of one stream task in a slot: take its transactional ids, get admitted, join the group, run, leave.

`init_transactions` takes its ids from a predecessor of the same number (E2). The group protects its partitions: the
coordinator refuses offsets of older generations, in transactions too (E19). The task reads the group's offsets only
after both (E3).

The loop is: read, convert, transform, process, convert back, commit. The offsets of the records read are committed in
the transaction of their output, with the group metadata as of the assignment (KIP-447). Nothing else commits offsets
here. Revoked partitions are granted once everything sent from them is committed. A failed commit fails the task's
instance, and the next one begins at the group's offsets.
"""

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import closing
from enum import Enum, auto
from functools import cached_property

from fencepost.api import RetriableError
from fencepost.config.reference import given_values
from fencepost.kafka.group.contributors import Contributors
from fencepost.kafka.read.group_input import GroupInput
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import TopicPartition
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.conversion.plugins import connector_of
from fencepost.task.delivery.delivery import TopicCreation, topics_of
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.failure.dead_letter import ensure_topics
from fencepost.task.failure.tolerance import StoppedInRetryError
from fencepost.task.sink.loop import LONGEST_POLL_S
from fencepost.task.sink.reader import BatchSize, Offsets, OutputGuard, ReaderStatus, member_of
from fencepost.task.start.producing import Admit, ProducingRunner
from fencepost.task.start.run import StreamCounters, TaskRun
from fencepost.task.start.runner import Report, admitted
from fencepost.task.stream.processing import StreamContext, StreamProcessor, StreamStep, stream_processor_of
from fencepost.task.stream.transactions import (
    StreamBoundary,
    StreamInput,
    StreamSender,
    StreamTransactions,
    stream_boundary_of,
)
from fencepost.task.tracing.exports import tracing_of
from fencepost.transaction import StaleMemberError, lane_ids
from fencepost.transaction.input_fence import Fenced, Signature
from fencepost.transaction.stable_positions import StablePositions

log = logging.getLogger(__name__)

_MOST_RECORDS = 5_000  # unless the user sets it

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
        self._is_to_begin = False  # a partition begins at an offset that has to be committed first

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
        most = self._step.batches.records
        fetched = self._input.poll(transactions.wait_s(LONGEST_POLL_S), most)
        self._follow_restarts()
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
        transactions.commit_if_due(len(fetched), has_more=len(fetched) >= most)

    def _follow_restarts(self) -> None:
        """Go on where the input does, and commit that with the next transaction; with `latest`, before its records."""
        if restarts := self._input.starts.restarts:
            self._transactions.positions.restart({place: each.offset for place, each in restarts.items()})
            restarts.clear()
            self._is_to_begin = self._run.spec.input.begins_at_the_end

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
        """Fetch the same records again later. Earlier records are committed without delay."""
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
        if fresh and self._run.spec.input.begins_at_the_end:
            self._is_to_begin = True
        return {}

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit everything that was sent before another member gets the partitions.

        If that fails, nothing was committed, or the next member waits until the outcome is known (E19).
        """
        try:
            if self._phase is _Phase.RUNNING:
                self._follow_restarts()
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


ReportState = Callable[[RunState, str | None], None]


class Takeover:
    """Reports the progress of reading an instance's positions: counters, and a text in the task's status."""

    def __init__(self, counters: StreamCounters, report_state: ReportState) -> None:
        self._counters = counters
        self._report_state = report_state
        self._fenced: list[str] = []  # since the last assignment for which a producer was fenced

    def positions(self, spec: TaskSpec, control: Control) -> StablePositions:
        """Return the reader of the task's positions, as a member of its group, for one instance of it."""
        return StablePositions(
            spec.input.consumer_conf,
            spec.output.producer_conf,
            lane_ids(str(spec.output.transactional_id)),
            on_fenced=self.fenced,
            on_waiting=self.waiting,
            is_over=lambda: control.is_stopping,
            foreign=spec.input.foreign_ids,
        )

    def fenced(self, fenced: list[Fenced]) -> None:
        """Record the producers that were fenced for partitions of one assignment."""
        self._counters.producers_fenced += len(fenced)
        self._fenced = [f"Fenced {each}" for each in fenced]
        self._tell()

    def waiting(self, why: str) -> None:
        """Record that the task waits, and why; if `why` is empty, it no longer waits."""
        self._counters.is_waiting_for_offsets = int(bool(why))
        self._tell(why)

    def _tell(self, why: str = "") -> None:
        lines = [*self._fenced, *([f"Waits: {why}"] if why else [])]
        self._report_state(self._counters.state, "\n".join(lines) or None)


class StreamRunner(ProducingRunner):
    """Runs one start of a stream's task, with as many producers, memberships and instances as it takes."""

    def __init__(self, spec: TaskSpec, admit: Admit, report: Report) -> None:
        super().__init__(spec, admit, report)
        self.counters: StreamCounters = StreamCounters()
        self.input: GroupInput | None = None
        self._processor: StreamProcessor | None = None  # that of the newest instance
        self._takeover = Takeover(self.counters, self.report)

    @cached_property
    def _signature(self) -> Signature:
        return Signature(Contributors(self.spec.output.producer_conf))

    def abandon(self) -> None:
        """Abandon a task that does not stop in time: its producers are closed under it, and it leaves the group."""
        super().abandon()
        input_ = self.input
        if input_ is not None:  # in a thread, as it may take a while and the slot must send heartbeats
            threading.Thread(target=input_.abandon, name=f"abandon-{self.spec.id}", daemon=True).start()
        if self._processor is not None:
            self._processor.abandon()

    def _close(self) -> None:
        """Leave the group first: this commits what can still be committed."""
        input_, self.input = self.input, None
        if input_ is not None:
            input_.close()
        super()._close()

    def _before_the_last_report(self) -> None:
        """Leave the group first: a reader of the task's last state may rely on it."""
        self._close()

    def _run_instance(self) -> None:
        delivery = self._open_delivery()  # step 5
        if self.control.should_yield:
            self._close_delivery()
            return
        self._admit()  # step 6
        config, task = connector_of(self.spec)
        with closing(stream_processor_of(self.spec, self.control, self.counters.errors)) as processor:
            self._processor = processor
            processor.open()
            configs = given_values(self.spec.task_config)
            context = StreamContext(configs, self.control, processor.report)
            task.initialize(context, config)
            if processor.has_dead_letters:
                ensure_topics(self.spec)
            loop = StreamLoop(
                TaskRun(self.spec, self.control, self.counters, self.report, tracing_of(self.spec)),
                StreamStep(
                    task, context, processor, self.counters, BatchSize(self.spec.input.most_records or _MOST_RECORDS)
                ),
                stream_boundary_of(self.spec.commits.boundary, self.spec.commits.boundary_interval_ms),
                topics_of(self.spec),
                self._replaced,
            )
            try:
                self._start(task)
                positions = self._takeover.positions(self.spec, self.control)  # step 7, E3, E20
                self.input = member_of(self.spec, loop, positions)
                self.report(RunState.RUNNING)
                loop.run(self.input, delivery)  # step 8
            finally:
                self._close()
                self._stop(task)

    @property
    def _makes_smaller(self) -> bool:
        return True

    def _open_delivery(self) -> LanedDelivery:
        assert self.spec.output.transactional_id is not None
        return self._open_lanes(
            self._settings(), self.spec.output.transactional_id, self.control.wake, signature=self._signature
        )

    def _replaced(self) -> tuple[LanedDelivery, bool]:
        is_struck = self._retire_delivery()
        delivery = self._open_delivery()
        admitted(self._admit_call(self.spec, wants_offsets=False))
        return delivery, is_struck
