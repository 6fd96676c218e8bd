"""What a restart request means (KIP-745)."""

import pytest

from fencepost.storage.change import RestartRequested
from fencepost.storage.status_topic import State, Status
from fencepost.worker.operation.connector.connectors import RestartPlan, plan_restart


def status(state: State) -> Status:
    return Status(state, "w:1", 1)


TASKS = {0: status(State.RUNNING), 1: status(State.FAILED), 2: status(State.FAILED)}


@pytest.mark.parametrize(
    ("include_tasks", "only_failed", "connector", "expected"),
    [
        (False, False, State.RUNNING, RestartPlan(True, ())),
        (False, True, State.RUNNING, RestartPlan(False, ())),
        (False, True, State.FAILED, RestartPlan(True, ())),
        (True, False, State.RUNNING, RestartPlan(True, (0, 1, 2))),
        (True, True, State.RUNNING, RestartPlan(False, (1, 2))),
        (True, True, State.FAILED, RestartPlan(True, (1, 2))),
    ],
)
def test_restart_plan_contains_the_requested_connector_and_tasks(
    include_tasks: bool, only_failed: bool, connector: State, expected: RestartPlan
) -> None:
    request = RestartRequested("c", include_tasks, only_failed)
    assert plan_restart(request, status(connector), TASKS) == expected


def test_connector_without_a_status_is_not_restarted_as_failed() -> None:
    assert plan_restart(RestartRequested("c", True, True), None, {}) == RestartPlan(False, ())
