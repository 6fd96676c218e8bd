"""The life of one stream task in a slot: take its transactional ids, get admitted, join the group, run, leave.

`init_transactions` takes its ids from a predecessor of the same number (E2). The group protects its partitions: the
coordinator refuses offsets of older generations, in transactions too (E19). The task reads the group's offsets only
after both (E3).
"""

import threading
from contextlib import closing
from functools import cached_property

from fencepost.config.raw import given_values
from fencepost.kafka.group.contributors import Contributors
from fencepost.kafka.read.group_input import GroupInput
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.lanes import LanedDelivery
from fencepost.task.delivery.topic_creation import topics_of
from fencepost.task.failure.dead_letter import ensure_topics
from fencepost.task.life.admitted import admitted
from fencepost.task.life.counters import StreamCounters
from fencepost.task.life.plugins import connector_of
from fencepost.task.life.producing_life import Admit, ProducingLife
from fencepost.task.life.task_life import Report
from fencepost.task.life.task_run import TaskRun
from fencepost.task.sink.subscription import subscription
from fencepost.task.stream.boundary import stream_boundary_of
from fencepost.task.stream.context import StreamContext
from fencepost.task.stream.loop import StreamLoop
from fencepost.task.stream.processing import StreamProcessor, StreamStep, stream_processor_of
from fencepost.task.stream.takeover import Takeover
from fencepost.task.tracing.process import tracing_of
from fencepost.transaction.signature import Signature


class StreamRunner(ProducingLife):
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
