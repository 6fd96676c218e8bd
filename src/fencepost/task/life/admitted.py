"""What every start of a task does, whatever kind of task it is: get admitted, and report."""

from collections.abc import Iterable, Mapping

from fencepost.api import FatalError
from fencepost.task.channel.message import Admission, RunState, TaskReport
from fencepost.task.channel.task_spec import TaskSpec


class NotAdmittedError(Exception):
    """The worker says that this start of the task is not, or is no longer, the one to run."""


def admitted(admission: Admission) -> Admission:
    """Return `admission` if it admits the start. Raises NotAdmittedError; FatalError if no start would be admitted."""
    if admission.failure:
        raise FatalError(admission.failure)
    if not admission.is_admitted:
        raise NotAdmittedError(admission.reason)
    return admission


def report_of(
    spec: TaskSpec, state: RunState, trace: str | None, counters: Mapping[str, float], topics: Iterable[str]
) -> TaskReport:
    """Return the report of a start: its state, `trace` if it has failed, counters and the topics it wrote to."""
    return TaskReport(spec.connector, spec.task, spec.incarnation, state, trace, counters, tuple(sorted(topics)))
