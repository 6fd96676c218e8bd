"""The life of one stream task in a slot: take its transactional ids, get admitted, join the group, run, leave.

`init_transactions` takes its ids from a predecessor of the same number (E2). The group protects its partitions: the
coordinator refuses offsets of older generations, in transactions too (E19). The task reads the group's offsets only
after both (E3).
"""

import threading
from collections.abc import Callable
from contextlib import closing
from functools import cached_property

from fencepost.config.reference import given_values
from fencepost.kafka.group.contributors import Contributors
from fencepost.kafka.read.group_input import GroupInput
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.conversion.plugins import connector_of
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.topic_creation import topics_of
from fencepost.task.failure.dead_letter import ensure_topics
from fencepost.task.sink.reader import subscription
from fencepost.task.start.counters import StreamCounters
from fencepost.task.start.producing import Admit, ProducingRunner
from fencepost.task.start.run import TaskRun
from fencepost.task.start.runner import Report, admitted
from fencepost.task.stream.loop import StreamLoop
from fencepost.task.stream.processing import StreamContext, StreamProcessor, StreamStep, stream_processor_of
from fencepost.task.stream.transactions import stream_boundary_of
from fencepost.task.tracing.exports import tracing_of
from fencepost.transaction import lane_ids
from fencepost.transaction.input_fence import Fenced
from fencepost.transaction.signature import Signature
from fencepost.transaction.stable_positions import StablePositions

ReportState = Callable[[RunState, str | None], None]


class Takeover:
    """Reports what reading the positions of one instance involves: counters, and a text in the task's status."""

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
        """Leave the group first: those who see that the task has ended may rely on it."""
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
                StreamStep(task, context, processor, self.counters),
                stream_boundary_of(self.spec.commits.boundary, self.spec.commits.boundary_interval_ms),
                topics_of(self.spec),
                self._replaced,
            )
            try:
                self._start(task)
                whole = (self.spec.input.resend_topic,)
                positions = self._takeover.positions(self.spec, self.control)  # step 7, E3, E20
                self.input = GroupInput(
                    self.spec.input.consumer_conf, subscription(self.spec), loop, whole=whole, positions=positions
                )
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
