"""What all parts of a running task need."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.life.counters import Counters
from fencepost.task.tracing.tracing import NO_TRACING, Tracing

C_co = TypeVar("C_co", bound=Counters, covariant=True)


@dataclass(frozen=True)
class TaskRun(Generic[C_co]):
    """One start of a task: its spec, what the worker wants of it, and what it reports to the worker."""

    spec: TaskSpec
    control: Control
    counters: C_co
    report_state: Callable[[RunState], None]
    tracing: Tracing = NO_TRACING

    def commit_begun(self, begun_s: float) -> None:
        """Record that a commit has begun: what was sent since the last call is one transaction."""
        self.counters.commit_begun(begun_s)
        self.tracing.commit_begun(begun_s)

    def committed(self, ended_s: float) -> None:
        """Record that the oldest open transaction was committed at `ended_s`, possibly a while ago."""
        self.counters.committed(ended_s)
        self.tracing.committed(ended_s)
