"""What is told of a task between two reports of its own: the slot asks every second."""

from fencepost.task.counters import StreamCounters
from fencepost.task.life import TaskLife
from fencepost.task.news import News
from fencepost.task.spec import RunState, TaskReport, TaskSpec


class Waiting(TaskLife):
    """A task that waits, and then fails."""

    starts_over = ()

    def __init__(self, reports: list[TaskReport]) -> None:
        super().__init__(TaskSpec("c", 0, 1, "i", {}, {}, {}, "offsets"), reports.append)
        self.counters = StreamCounters()
        self.seen: list[TaskReport] = []

    def _run_instance(self) -> None:
        self.report(RunState.RUNNING, "Waits: for somebody")
        self.seen.append(self.snapshot())
        self.report(RunState.RUNNING)
        self.seen.append(self.snapshot())
        raise ValueError("enough")

    def abandon(self) -> None: ...

    def _start_over(self, error: Exception) -> None: ...

    def _close(self) -> None: ...


def test_what_is_told_of_a_task_holds_until_it_reports_anew() -> None:
    """A slot that left it out made the worker take it out of the task's status, a moment after it was there."""
    reports: list[TaskReport] = []
    task = Waiting(reports)
    task.run()
    assert [(seen.state, seen.trace) for seen in task.seen] == [("RUNNING", "Waits: for somebody"), ("RUNNING", None)]
    assert [report.state for report in reports] == ["RUNNING", "RUNNING", "FAILED"]


def test_a_task_that_is_over_reports_that_itself() -> None:
    """What it fails of is in that report: a slot that was faster would say that it failed of nothing."""
    task = Waiting([])
    task.run()
    assert task.snapshot().state is RunState.FAILED
    assert News().of([task.snapshot()]) == []
