"""The life of one sink task in a slot: get admitted, join the group, run, leave; and what follows each failure.

No transactional id fences a predecessor here: the group does. Its coordinator grants a partition to one member at a
time, and refuses commits of older generations (E10).
"""

import threading
from collections.abc import Callable
from contextlib import closing

import orjson

from fencepost.api import FencedError, RetriableError, SinkTask
from fencepost.config.reference import given_values
from fencepost.hook.hosted_task import HostedSink, InOtherProcess
from fencepost.kafka.read.group_input import GroupInput
from fencepost.task.channel.message import Admission, RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.conversion.plugins import connector_of
from fencepost.task.failure.dead_letter import ensure_topics
from fencepost.task.failure.dead_letter_producer import DeadLetters
from fencepost.task.sink.context import HostedContext, Reporter, SinkContext
from fencepost.task.sink.loop import SinkLoop
from fencepost.task.sink.mixed_processing import sink_processor_of
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.sink.reader import member_of
from fencepost.task.start.run import SinkCounters, TaskRun
from fencepost.task.start.runner import Report, TaskRunner, admitted
from fencepost.task.tracing.exports import tracing_of


class SinkRunner(TaskRunner):
    """Runs one start of a sink's task, with as many memberships and instances as it takes."""

    starts_over = (FencedError, RetriableError)

    def __init__(self, spec: TaskSpec, admit: Callable[[TaskSpec], Admission], report: Report) -> None:
        super().__init__(spec, report)
        self.counters: SinkCounters = SinkCounters()
        self._admit = admit
        self._loop: SinkLoop | None = None
        self.input: GroupInput | None = None
        self._dead_letters: DeadLetters | None = None
        self._task: SinkTask | None = None  # the newest instance, which may have ended
        self._processor: SinkProcessor | None = None  # that of the newest instance

    def figures(self) -> str:
        found = self._task.figures() if isinstance(self._task, HostedSink) else {}
        return orjson.dumps(found).decode() if found else ""

    def _elsewhere(self) -> InOtherProcess | None:
        return self._task if isinstance(self._task, HostedSink) else None

    def abandon(self) -> None:
        """Abandon a task that does not stop in time: it leaves the group, unless its thread is inside the client."""
        self._is_abandoned = True
        self.control.stop()
        loop, input_ = self._loop, self.input
        if loop is not None:
            loop.is_abandoned = True
        if input_ is not None:  # in a thread, as it may take a while and the slot must send heartbeats
            threading.Thread(target=input_.abandon, name=f"abandon-{self.spec.id}", daemon=True).start()
        if isinstance(self._task, HostedSink):
            self._task.abandon()
        if self._processor is not None:
            self._processor.abandon()

    def _close(self) -> None:
        input_, self.input = self.input, None
        if input_ is not None:
            input_.close()
        dead_letters, self._dead_letters = self._dead_letters, None
        if dead_letters is not None:
            dead_letters.close()

    def _before_the_last_report(self) -> None:
        """Leave the group first: a reader of the task's last state may rely on it."""
        self._close()

    def _start_over(self, error: Exception) -> None:
        self._close()
        self._will_start_again(error)
        self._back_off.wait()

    def _run_instance(self) -> None:
        admitted(self._admit(self.spec))
        config, task = connector_of(self.spec)
        context = self._context(task)
        task.initialize(context, config)
        self._task = task
        with closing(sink_processor_of(self.spec, self.control, self.counters.errors)) as processor:
            self._processor = processor
            processor.open()
            if self.spec.dead_letters.topic:
                ensure_topics(self.spec)
                self._dead_letters = DeadLetters(self.spec, self.counters.errors)
            reporter = Reporter(processor, self._dead_letters)
            processor.tolerance.tell = reporter.tell
            processor.keeps.arrays = isinstance(task, HostedSink)
            processor.keeps.columns = task.takes_columns
            processor.keeps.read = self._dead_letters is not None
            context.errant_record_reporter = reporter if self._dead_letters or processor.tolerance.logs else None
            run = TaskRun(self.spec, self.control, self.counters, self.report, tracing_of(self.spec))
            loop = SinkLoop(run, task, context, processor, self._dead_letters)
            if isinstance(context, HostedContext):
                context.reporter = reporter
                context.next_offsets = loop.next_offsets
            try:
                self._start(task)
                self._loop, self.input = loop, member_of(self.spec, loop)
                self.report(RunState.RUNNING)
                loop.run(self.input)
            finally:
                self._close()
                self._stop(task)

    def _context(self, task: SinkTask) -> SinkContext:
        if isinstance(task, HostedSink):
            return HostedContext(self.spec, self.control, self.counters.errors)
        return SinkContext(given_values(self.spec.task_config), self.control, self.spec.generation)
