"""What a running task of a stream can use: its configs, its assignment, and a way to leave records out."""

from collections.abc import Callable, Mapping

from fencepost.record import SinkRecord, TopicPartition
from fencepost.task.control import Control

Report = Callable[[SinkRecord, Exception], None]


class StreamContext:
    """The `StreamTaskContext` of a task in a slot."""

    def __init__(self, configs: Mapping[str, str], control: Control, report: Report) -> None:
        self.configs = configs
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.report = report
        self._control = control

    @property
    def is_stopping(self) -> bool:
        return self._control.is_stopping
