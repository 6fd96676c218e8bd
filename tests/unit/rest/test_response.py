"""Bodies that only some answers have."""

import json

import pytest

from fencepost.cluster.info import RestartInfo, TaskState
from fencepost.rest.response import json_response, to_json


@pytest.mark.parametrize(("next_ms", "text"), [(1_700_000_000_123, "2023-11-14T22:13:20.123Z"), (None, None)])
def test_status_of_a_failed_task_shows_its_restarts(next_ms: int | None, text: str | None) -> None:
    body = json.loads(to_json(TaskState(0, "FAILED", "w:1", "broken", None, RestartInfo(2, next_ms))))
    assert body["restart"] == {"attempts": 2, "next": text}


def test_status_of_a_task_without_restarts_omits_them() -> None:
    body = json.loads(to_json(TaskState(0, "FAILED", "w:1", "broken")))
    assert body == {"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "broken"}


def test_answers_may_not_be_cached() -> None:
    assert json_response({}).headers["cache-control"] == "no-store"
    assert json_response({}, headers={"cache-control": "no-cache"}).headers["cache-control"] == "no-cache"
