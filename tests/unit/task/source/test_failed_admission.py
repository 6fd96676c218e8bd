"""A task whose worker cannot admit it, now or ever, unless somebody acts."""

import pytest

from fencepost.task.channel.message import Admission, TaskReport
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.task.source import runner as module
from fencepost.task.source.runner import SourceRunner

DENIED = "Not authorized while reading topic offsets"


def test_task_fails_with_the_reason_of_its_refused_admission(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without exactly-once the producer connects to nothing before there is a record."""
    monkeypatch.setattr(module, "wants_reports", lambda spec: False)
    conf = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    reports: list[TaskReport] = []
    spec = TaskSpec("c", 0, 1, "i", {}, {}, output=OutputSpec(conf, "offsets"))
    answer = {"is_admitted": False, "reason": "", "failure": DENIED}  # as it travels from the worker
    SourceRunner(spec, lambda _: Admission.from_json(answer), reports.append).run()
    assert [report.state for report in reports] == ["FAILED"]
    assert DENIED in (reports[0].trace or "")
