"""The loop of a source for unit tests, with converters and a run of its own."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fencepost.api import SourceRecord, SourceTask
from fencepost.builtin.converter.plain import SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.plugin import find
from fencepost.record.schema import STRING
from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import DeadLetterSpec, OutputSpec, TaskSpec
from fencepost.task.control import Control
from fencepost.task.delivery.delivery import Delivery
from fencepost.task.failure.dead_letter import class_of
from fencepost.task.failure.dead_letter_producer import TransactionDeadLetters
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.source.boundary import Boundary, PollBoundary
from fencepost.task.source.loop import SourceLoop
from fencepost.task.source.offsets import OffsetBook
from fencepost.task.source.processing import Processor
from fencepost.task.start.run import Counters, TaskRun
from fencepost.task.tracing.tracing import NO_TRACING, Tracing


class SourceStage:
    """A loop without a broker. A pause ends as soon as it is reported."""

    def __init__(self) -> None:
        self.control, self.counters, self.book = (
            Control(is_paused=False),
            Counters(state=RunState.RUNNING),
            OffsetBook(),
        )
        self.states: list[RunState] = []
        self.dead_letters = DeadLetterSpec()
        self.tracing: Tracing = NO_TRACING

    def replace(self) -> Delivery:
        """Return the delivery that follows one that must not be used any more."""
        raise NotImplementedError

    def report_state(self, state: RunState) -> None:
        self.states.append(state)
        if state is RunState.PAUSED:
            self.control.resume()

    def loop(
        self,
        task: SourceTask,
        boundary: Boundary | None = None,
        *,
        is_exactly_once: bool = True,
        transforms: Mapping[str, str] | None = None,
        value_converter: type[StringConverter] = StringConverter,
        tolerance: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> SourceLoop:
        """Return a loop over the task. `tolerance` has settings other than to tolerate and to retry nothing."""
        usual = {"tolerates_all": False, "retry_timeout_ms": 0, "retry_delay_max_ms": 1}
        logs: dict[str, Any] = {"logs": False, "logs_messages": False, "control": self.control, "task_id": "c-0"}
        key, value = StringConverter({"converter.type": "key"}), value_converter({"converter.type": "value"})
        logs["counters"] = self.counters.errors
        chain = Chain.from_config(dict(transforms or {}), find)
        output = OutputSpec({}, "offsets", transactional_id="g-c-0" if is_exactly_once else None)
        spec = TaskSpec("c", 0, 1, "i", {}, {}, output=output, dead_letters=self.dead_letters)
        processor = Processor(
            chain, key, value, SimpleHeaderConverter({}), Tolerance(**{**usual, **(tolerance or {}), **logs})
        )
        if self.dead_letters.topic:
            processor.letters = TransactionDeadLetters(spec, partial(class_of, processor))
            processor.tolerance.tell = processor.letters.tell
        return SourceLoop(
            TaskRun(spec, self.control, self.counters, self.report_state, self.tracing),
            task,
            processor,
            boundary or PollBoundary(),
            self.book,
            NoTopics(),  # type: ignore[arg-type]
            self.replace,
            **more,
        )


class NoTopics:
    """Topics that need not be created."""

    def ensure(self, topics: Sequence[str]) -> None: ...


def records(*values: str, topic: str = "t") -> list[SourceRecord]:
    """Return records of one source partition, each with its value as its offset."""
    return [SourceRecord({"f": 1}, {"at": value}, topic, value, STRING) for value in values]
