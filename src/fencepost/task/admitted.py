"""What every start of a task does alike, whichever door it runs through: be admitted, and report."""

from collections.abc import Iterable, Mapping

from fencepost.api import FatalError
from fencepost.task.spec import Admission, RunState, TaskReport, TaskSpec


class NotAdmittedError(Exception):
    """The worker says that this start of the task is not, or no longer, the one to run."""


def admitted(admission: Admission) -> Admission:
    """Return an admission that is one. Raises NotAdmittedError; FatalError where no start would be admitted."""
    if admission.failure:
        raise FatalError(admission.failure)
    if not admission.is_admitted:
        raise NotAdmittedError(admission.reason)
    return admission


def report_of(
    spec: TaskSpec, state: RunState, trace: str | None, counters: Mapping[str, float], topics: Iterable[str]
) -> TaskReport:
    """Return what a start says of itself: its state, `trace` where it has failed, counters, and topics written to."""
    return TaskReport(spec.connector, spec.task, spec.incarnation, state, trace, counters, tuple(sorted(topics)))
