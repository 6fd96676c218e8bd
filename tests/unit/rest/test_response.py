"""Bodies that only some answers have."""

import pytest

from fencepost.cluster.info import RestartInfo, TaskState
from fencepost.rest.model import TaskStateBody
from fencepost.rest.response import task_state_body


@pytest.mark.parametrize(("next_ms", "text"), [(1_700_000_000_123, "2023-11-14T22:13:20.123Z"), (None, None)])
def test_a_failed_task_tells_of_its_restarts(next_ms: int | None, text: str | None) -> None:
    body = task_state_body(TaskState(0, "FAILED", "w:1", "broken", None, RestartInfo(2, next_ms)))
    assert body["restart"] == {"attempts": 2, "next": text}
    assert TaskStateBody.model_validate(body).restart is not None


def test_nothing_is_told_of_restarts_where_there_are_none() -> None:
    assert "restart" not in task_state_body(TaskState(0, "FAILED", "w:1", "broken"))
