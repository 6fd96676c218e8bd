"""What all parts of a running task need."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fencepost.task.channel.message import RunState
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.life.counters import Counters

C_co = TypeVar("C_co", bound=Counters, covariant=True)


@dataclass(frozen=True)
class TaskRun(Generic[C_co]):
    """One start of a task: its spec, what the worker wants of it, and what it reports to the worker."""

    spec: TaskSpec
    control: Control
    counters: C_co
    report_state: Callable[[RunState], None]
