"""What is told of a task between two reports of its own: the slot asks every second."""

from collections.abc import Callable

import pytest

from fencepost.hook.hosted_task import HostLostError
from fencepost.task.channel.message import RETRYING, LostTask, RunState, TaskReport
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.task.slot.slot import ReportFilter
from fencepost.task.start.run import StreamCounters
from fencepost.task.start.runner import TaskRunner
from support.no_exception import PanicException, no_exceptions


class Waiting(TaskRunner):
    """A task that waits, and then fails."""

    starts_over = ()

    def __init__(self, reports: list[TaskReport | LostTask]) -> None:
        super().__init__(TaskSpec("c", 0, 1, "i", {}, {}, output=OutputSpec({}, "offsets")), reports.append)
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


def test_remark_about_a_task_holds_until_its_next_report() -> None:
    """A slot that left it out made the worker take it out of the task's status, a moment after it was there."""
    reports: list[TaskReport | LostTask] = []
    task = Waiting(reports)
    task.run()
    assert [(seen.state, seen.trace) for seen in task.seen] == [("RUNNING", "Waits: for somebody"), ("RUNNING", None)]
    assert [report.state for report in reports if isinstance(report, TaskReport)] == ["RUNNING", "RUNNING", "FAILED"]


def test_snapshot_of_an_ended_task_is_not_reported_by_the_slot() -> None:
    """What it fails of is in that report: a slot that was faster would say that it failed of nothing."""
    task = Waiting([])
    task.run()
    assert task.snapshot().state is RunState.FAILED
    assert ReportFilter().changed([task.snapshot()]) == []


def test_failure_of_a_task_is_not_logged_by_its_own_process(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        Waiting([]).run()
    assert [record for record in caplog.records if record.exc_info] == []


class Scripted(TaskRunner):
    """A task that does what a test has it do."""

    starts_over = ()

    def __init__(self) -> None:
        self.reports: list[TaskReport | LostTask] = []
        super().__init__(TaskSpec("c", 0, 1, "i", {}, {}, output=OutputSpec({}, "offsets")), self.reports.append)
        self.counters = StreamCounters()
        self.at_work: Callable[[], object] = lambda: None
        self.at_end: Callable[[], object] = lambda: None
        self.measures: Callable[[], str] = lambda: ""

    def _run_instance(self) -> None:
        self.report(RunState.RUNNING)
        self.at_work()
        self.control.stop()

    def _before_the_last_report(self) -> None:
        self.at_end()

    def figures(self) -> str:
        return self.measures()

    def abandon(self) -> None: ...

    def _start_over(self, error: Exception) -> None: ...

    def _close(self) -> None: ...

    @property
    def last(self) -> TaskReport:
        return self.reports[-1]


def raises(error: BaseException) -> Callable[[], str]:
    def act() -> str:
        raise error

    return act


@pytest.mark.parametrize("error", no_exceptions(), ids=repr)
def test_base_exception_fails_the_task_with_its_trace(error: BaseException) -> None:
    task = Scripted()
    task.at_work = raises(error)
    task.run()
    assert task.last.state is RunState.FAILED
    assert type(error).__name__ in (task.last.trace or "")


@pytest.mark.parametrize("error", [OSError("the group cannot be left"), *no_exceptions()], ids=repr)
def test_task_makes_its_last_report_even_when_its_end_fails(error: BaseException) -> None:
    task = Scripted()
    task.at_end = raises(error)
    task.run()
    assert task.last.state is RunState.FAILED
    assert type(error).__name__ in (task.last.trace or "")


def test_later_error_does_not_hide_the_cause_of_a_failure() -> None:
    task = Scripted()
    task.at_work, task.at_end = raises(ValueError("the cause")), raises(OSError("later"))
    task.run()
    assert task.last.state is RunState.FAILED
    assert "the cause" in (task.last.trace or "")


@pytest.mark.parametrize("error", [RuntimeError("dictionary changed size"), PanicException("a panic")], ids=repr)
def test_task_continues_without_figures_that_fail_occasionally(error: BaseException) -> None:
    task, seen = Scripted(), []

    def at_work() -> None:
        for measures in 20 * [raises(error), raises(error), lambda: '{"source": []}']:
            task.measures = measures
            seen.append(task.snapshot().figures)

    task.at_work = at_work
    task.run()
    assert seen == 20 * ["", "", '{"source": []}']
    assert task.last.state is RunState.STOPPED


@pytest.mark.parametrize("error", [ValueError("no such topic"), *no_exceptions()], ids=repr)
def test_task_with_permanently_failing_figures_stops_cleanly_as_failed(error: BaseException) -> None:
    task, done = Scripted(), []

    def at_work() -> None:
        while not task.control.is_stopping:
            assert task.snapshot().figures == ""
        done.append("committed")

    task.at_work, task.measures = at_work, raises(error)
    task.run()
    assert done == ["committed"]
    assert task.last.state is RunState.FAILED
    assert type(error).__name__ in (task.last.trace or "")


@pytest.mark.parametrize("is_crash", [True, False])
def test_task_is_lost_and_not_failed_when_its_process_ended(is_crash: bool) -> None:
    task = Scripted()

    def lose() -> None:
        raise HostLostError("the host ended: exit code 3", frozenset({"neighbour"}), is_crash=is_crash)

    task.at_work = lose
    task.run()
    last = task.reports[-1]
    assert isinstance(last, LostTask)
    assert (last.report.state, last.report.trace) == (RunState.LOST, "the host ended: exit code 3")
    assert last.crashed_with == (("i", "neighbour") if is_crash else ())
    assert ReportFilter().changed([task.snapshot()]) == []  # it reports nothing more


def test_restarted_task_is_retrying_until_it_commits_or_runs_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, task = [100.0], Scripted()
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def retrying() -> tuple[bool, str]:
        found = task.snapshot()
        return bool(found.counters[RETRYING]), (found.trace or "").partition("\n")[0]

    task.report(RunState.RUNNING)
    assert retrying() == (False, "")
    assert not task._will_start_again(OSError("no broker"))
    assert retrying() == (True, "no broker")
    clock[0] += 10
    assert retrying() == (True, "no broker")
    clock[0] += 10
    assert retrying() == (False, "")
    task._will_start_again(OSError("no broker"))
    task.counters.commits += 1
    assert retrying() == (False, "")
