"""Every start of a task is admitted, and reports, alike."""

import pytest

from fencepost.api import FatalError
from fencepost.task.channel.message import Admission, RunState
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.task.start.runner import NotAdmittedError, admitted, report_of

SPEC = TaskSpec("c", 0, 1, "i", {}, {}, output=OutputSpec({}, "o"))


def test_an_admission_is_passed_on_with_its_offsets() -> None:
    admission = Admission(True, "", (({"f": 1}, {"n": 2}),))
    assert admitted(admission) is admission


def test_refused_start_gets_the_reason() -> None:
    with pytest.raises(NotAdmittedError, match=r"^it was replaced$"):
        admitted(Admission(False, "it was replaced"))


def test_lasting_admission_failure_fails_the_task() -> None:
    with pytest.raises(FatalError, match=r"^not authorised$"):
        admitted(Admission(False, failure="not authorised"))


def test_a_report_names_the_start_and_its_topics_in_order() -> None:
    report = report_of(SPEC, RunState.RUNNING, None, {"commits": 1.0}, {"b", "a"})
    assert (report.incarnation, report.state, report.topics) == ("i", "RUNNING", ("a", "b"))
