"""A task whose principal is not authorised for the id of a second lane."""

import pytest

from fencepost.task.channel.message import Admission
from fencepost.task.channel.task_spec import CommitSpec, OutputSpec, TaskSpec
from fencepost.task.source import runner as module
from fencepost.task.source.runner import SourceRunner
from fencepost.task.start import producing


@pytest.mark.parametrize(("lanes", "warnings"), [(2, 1), (1, 0)])
def test_unauthorised_second_lane_is_logged_once_and_not_requested_again(
    lanes: int, warnings: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(producing, "open_lanes", lambda first, second, *, keeps_second: False)
    monkeypatch.setattr(module, "runs_ahead", lambda spec: True)
    monkeypatch.setattr(module, "wants_reports", lambda spec: False)
    conf = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    spec = TaskSpec(
        "c",
        0,
        1,
        "i",
        {},
        {},
        output=OutputSpec(conf, "offsets", transactional_id="g-c-0"),
        commits=CommitSpec(lanes=lanes),
    )
    runner = SourceRunner(spec, lambda _: Admission(True), lambda _: None)
    for _ in range(2):
        delivery = runner._open_delivery()
        delivery.widening._waits = 1_000  # type: ignore[attr-defined]
        assert not delivery.is_narrow
        delivery.close()
    assert sum("uses one lane" in message for message in caplog.messages) == warnings
