"""What a slot reports of tasks that go on as they were."""

from fencepost.task.channel.message import RunState, TaskReport
from fencepost.task.slot.slot import ReportFilter


def report(incarnation: str, polled: int) -> TaskReport:
    return TaskReport("c", 0, incarnation, RunState.RUNNING, None, {"records_polled": polled})


def test_an_idle_task_is_reported_until_its_rate_is_zero_and_then_no_more() -> None:
    filter_ = ReportFilter()
    busy, idle = [report("b", n) for n in range(4)], report("i", 7)
    assert filter_.changed([busy[0], idle]) == [busy[0], idle]
    assert filter_.changed([busy[1], idle]) == [busy[1], idle]
    assert filter_.changed([busy[2], idle]) == [busy[2]]
    assert filter_.changed([busy[2], idle]) == [busy[2]]
    assert filter_.changed([busy[2], idle]) == []
    assert filter_.changed([busy[3], report("i", 8)]) == [busy[3], report("i", 8)]


def test_new_incarnation_of_an_idle_task_is_reported() -> None:
    filter_ = ReportFilter()
    for _ in range(3):
        filter_.changed([report("a", 1)])
    assert filter_.changed([report("a2", 1)]) == [report("a2", 1)]
