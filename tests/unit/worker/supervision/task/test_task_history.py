"""What a task's reports say over time."""

import pytest

from fencepost.task.channel.message import RunState, TaskReport
from fencepost.telemetry.measure import WindowedRates
from fencepost.worker.supervision.task_metrics import TaskHistory


def report(state: RunState, polled: int = 0) -> TaskReport:
    return TaskReport("c", 0, "i", state, counters={"records_polled": polled})


@pytest.fixture
def history() -> TaskHistory:
    return TaskHistory(report(RunState.STARTING), WindowedRates(30, 2), 0.0)


def test_ratios_of_states_cover_the_time_from_start_to_end(history: TaskHistory) -> None:
    history.add(report(RunState.RUNNING), 10.0)
    history.add(report(RunState.PAUSED), 30.0)
    found = history.figures(40.0)
    assert (found["running_ratio"], found["pause_ratio"]) == (0.5, 0.25)
    history.add(report(RunState.RUNNING), 40.0)
    history.add(report(RunState.FAILED), 100.0)
    assert history.figures(1000.0)["running_ratio"] == 0.8


def test_rates_are_computed_from_the_reports(history: TaskHistory) -> None:
    history.add(report(RunState.RUNNING, 90), 0.0)
    assert history.figures(30.0)["records_polled_rate"] == 3.0
    assert history.figures(100.0)["records_polled_rate"] == 0.0
