"""A slot: one process with many tasks, none of which may take the others with it."""

import gc
import logging
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.hook.hosted_task import HostLostError
from fencepost.task.channel.client import ChannelClient
from fencepost.task.channel.message import (
    Directive,
    Directives,
    DirectivesRequest,
    LostTask,
    Path,
    Reports,
    RunState,
    TaskReport,
    Verb,
)
from fencepost.task.channel.task_spec import OutputSpec, RunSpec, TaskSpec
from fencepost.task.slot import slot as module
from fencepost.task.slot.slot import Slot, run_slot
from fencepost.task.slot.worker_line import SlotSpec
from fencepost.task.start.run import SinkCounters
from fencepost.task.start.runner import TaskRunner
from fencepost.telemetry.measure import Garbage
from fencepost.testing import eventually
from fencepost.worker.channel import ChannelServer
from support.no_exception import no_exceptions

SECRET = b"of the channel"


class Worker:
    """Tells a slot to run two tasks, and keeps what it reports."""

    def __init__(self) -> None:
        self.reports: list[TaskReport] = []
        self.lost: list[LostTask] = []
        self.is_leaving = threading.Event()
        self.progress_timeout_ms = 20_000
        self.failures: dict[str, int] = {}
        self.server = ChannelServer(SECRET)
        self.server.start(
            {Path.SLOT_REGISTER: lambda _: {}, Path.SLOT_DIRECTIVES: self._directives, Path.SLOT_REPORT: self._report}
        )

    def of(self, task: int) -> list[TaskReport]:
        return [report for report in self.reports if report.task == task]

    def _directives(self, body: dict[str, Any]) -> dict[str, Any]:
        if not DirectivesRequest.from_json(body).ack:
            run = RunSpec(progress_timeout_ms=self.progress_timeout_ms)
            output = OutputSpec({}, "offsets")
            specs = [TaskSpec("c", task, 1, f"i{task}", {}, {}, output=output, run=run) for task in (0, 1)]
            return Directives(tuple(Directive(n, Verb.START, "", s) for n, s in enumerate(specs, start=1))).to_json()
        self._may_fail(Path.SLOT_DIRECTIVES)
        self.is_leaving.wait(0.1)
        leave = (Directive(3, Verb.LEAVE),) if self.is_leaving.is_set() else ()
        return Directives(leave).to_json()

    def _report(self, body: dict[str, Any]) -> dict[str, Any]:
        self._may_fail(Path.SLOT_REPORT)
        self.reports += Reports.from_json(body).reports
        self.lost += Reports.from_json(body).lost
        return {}

    def _may_fail(self, path: str) -> None:
        """Fail as often as the test wants this path to."""
        if self.failures.get(path, 0):
            self.failures[path] -= 1
            raise RuntimeError("for a moment")


def wait_in_vain(event: threading.Event) -> None:
    event.wait(120)


def after_kafka() -> None: ...


class Running(TaskRunner):
    """A task that counts until it is told to stop."""

    starts_over = ()
    fails_with: dict[int, str | Exception] = {}
    hangs: dict[int, threading.Event] = {}
    figures_of: Callable[[int], str] = staticmethod(lambda task: "")

    def __init__(self, spec: TaskSpec, *rest: Any) -> None:
        super().__init__(spec, rest[1])
        self.counters = SinkCounters()

    def _run_instance(self) -> None:
        self.report(RunState.RUNNING)
        while not self.control.is_stopping:
            if self.spec.task in self.fails_with:
                error = self.fails_with[self.spec.task]
                raise ValueError(error) if isinstance(error, str) else error
            if self.spec.task in self.hangs:
                wait_in_vain(self.hangs[self.spec.task])
                after_kafka()
            self.counters.records_written += 1
            self.control.wait(0.01)

    def figures(self) -> str:
        return type(self).figures_of(self.spec.task)

    def abandon(self) -> None: ...

    def _start_over(self, error: Exception) -> None: ...

    def _close(self) -> None: ...


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker whose slot runs, in a thread of the test."""
    monkeypatch.setattr(module, "SourceRunner", Running)
    worker = Worker()
    spec = SlotSpec("s", worker.server.url, 60.0, report_every_s=0.01, retry_s=0.001)
    slot = Slot(spec, ChannelClient(worker.server.url, SECRET), "a")
    thread = threading.Thread(target=slot.run, daemon=True)
    thread.start()
    yield worker
    worker.is_leaving.set()
    thread.join(60)
    worker.server.stop()
    assert not thread.is_alive()


def test_lost_process_is_reported_with_the_tasks_that_ran_in_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    eventually(lambda: worker.of(0) and worker.of(1), within_s=60)
    monkeypatch.setattr(Running, "fails_with", {0: HostLostError("the host ended", frozenset({"i1"}))})
    eventually(lambda: worker.lost, within_s=60)
    (lost,) = worker.lost
    assert (lost.report.task, lost.report.trace, lost.crashed_with) == (0, "the host ended", ("i0", "i1"))
    assert worker.of(1)[-1].state is RunState.RUNNING


@pytest.mark.parametrize("error", [ValueError("no such topic"), *no_exceptions()], ids=repr)
def test_failing_figures_of_a_task_do_not_end_its_neighbours_reports(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def figures(task: int) -> str:
        if task == 0:
            raise error
        return ""

    eventually(lambda: worker.of(0) and worker.of(1), within_s=60)
    monkeypatch.setattr(Running, "figures_of", staticmethod(figures))
    eventually(lambda: worker.of(0)[-1].state is RunState.FAILED, within_s=60)
    assert type(error).__name__ in (worker.of(0)[-1].trace or "")
    before = len(worker.of(1))
    eventually(lambda: len(worker.of(1)) > before + 2, within_s=60)
    assert worker.of(1)[-1].state is RunState.RUNNING


class Knot:
    """An object in a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the slot collect every moment, and nobody else."""
    monkeypatch.setattr(module, "Garbage", lambda: Garbage(every_s=0.01, largest_share=0.5))
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("often", "worker")
def test_slot_collects_the_garbage_of_its_tasks() -> None:
    """Python's own collector looks rarely in a slot: cycles would stay, with what they hold."""
    knot = weakref.ref(Knot())
    eventually(lambda: knot() is None, within_s=60)


def test_a_slot_runs_where_python_collects_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, bool]] = []

    class Watched:
        def __init__(self, *_: object) -> None: ...

        def run(self) -> None:
            seen.append((gc.get_threshold()[0], gc.get_freeze_count() > 0))

    monkeypatch.setattr(module, "Slot", Watched)
    monkeypatch.setattr("resource.setrlimit", lambda *_: None)
    monkeypatch.setattr(module, "quiet_libraries", lambda: None)
    monkeypatch.setattr(module, "write_slot_log", lambda level: None)
    level = logging.getLevelName(logging.getLogger().level)
    run_slot(SlotSpec("s", "http://127.0.0.1:1", log_level=level).to_text(), 0)
    assert seen == [(200_000, True)]


def test_error_with_a_lone_surrogate_is_reported_as_a_failure(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """JSON cannot carry it. Else the slot would go on and report of nobody any more."""
    caplog.set_level(logging.CRITICAL)  # nor can pytest, from one process to another
    eventually(lambda: worker.of(0) and worker.of(1))
    monkeypatch.setattr(Running, "fails_with", {0: "no number: \ud800"})
    eventually(lambda: worker.of(0)[-1].state is RunState.FAILED)
    assert "no number: \\ud800" in (worker.of(0)[-1].trace or "")
    count = worker.of(1)[-1].counters["records_written"]
    eventually(lambda: worker.of(1)[-1].counters["records_written"] > count)


@pytest.mark.parametrize("begins", [False, True], ids=["after-a-while", "from-the-start"])
def test_stuck_task_shows_its_stack_until_it_moves_and_others_continue(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    worker.progress_timeout_ms = 400
    released = threading.Event()
    if not begins:
        eventually(lambda: worker.of(0) and worker.of(0)[-1].counters["records_written"])
    monkeypatch.setattr(Running, "hangs", {0: released})
    hung = "in wait_in_vain\n    event.wait(120)"  # a process that stands still for a moment may say so elsewhere
    last = eventually(lambda: next((r for r in worker.of(0) if hung in (r.trace or "")), None), within_s=60)
    assert last is not None
    assert (last.state, last.counters["stands_still"], last.counters["hangs"]) == (RunState.RUNNING, 1.0, 1.0)
    since = r"The task has stood still since 2\d{3}-.*Z, for longer than progress\.timeout\.ms"
    assert re.match(since, last.trace or "")
    assert "(restart it if it does not move again, or let progress.timeout.action=fail do so)" in (last.trace or "")
    count = worker.of(1)[-1].counters["records_written"]
    eventually(lambda: worker.of(1)[-1].counters["records_written"] > count)
    monkeypatch.setattr(Running, "hangs", {})
    released.set()
    eventually(lambda: not (now := worker.of(0)[-1]).counters["stands_still"] and now.trace is None)
    assert {report.trace for report in worker.of(0) if hung in (report.trace or "")} == {last.trace}


def test_time_spent_waiting_for_kafka_does_not_count_as_a_hang(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.progress_timeout_ms = 200
    released = threading.Event()
    source = compile("def wait(event):\n    event.wait(120)", "client.py", "exec")
    client: dict[str, Any] = {"__name__": "fencepost.kafka.produce.client"}
    exec(source, client)
    monkeypatch.setitem(globals(), "wait_in_vain", client["wait"])
    monkeypatch.setattr(Running, "hangs", {0: released})
    waits = eventually(lambda: [r for r in worker.of(0) if "client.py" in (r.trace or "")], within_s=60)
    assert waits[-1].counters["hangs"] == 0
    elsewhere = threading.Event()
    monkeypatch.setitem(globals(), "after_kafka", lambda: elsewhere.wait(120))
    released.set()
    moved = eventually(lambda: [r for r in worker.of(0) if "elsewhere.wait(120)" in (r.trace or "")], within_s=60)
    assert moved[-1].counters["hangs"] == 1
    monkeypatch.setattr(Running, "hangs", {})
    elsewhere.set()


def test_slot_survives_short_worker_outages_and_repeats_its_reports(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    eventually(lambda: worker.of(0) and worker.of(1))
    worker.failures = {Path.SLOT_DIRECTIVES: 3, Path.SLOT_REPORT: 3}
    monkeypatch.setattr(Running, "fails_with", {0: "its end"})
    eventually(lambda: not any(worker.failures.values()))
    eventually(lambda: worker.of(0)[-1].state is RunState.FAILED)
    count = worker.of(1)[-1].counters["records_written"]
    eventually(lambda: worker.of(1)[-1].counters["records_written"] > count)


def test_leaving_slot_reports_the_end_of_its_slowest_task(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the worker would wait for the end of the slot's Spark job, and say that the task was lost."""
    monkeypatch.setattr(module, "_STOP_S", 60.0)
    entered, released = threading.Event(), threading.Event()
    slow = SimpleNamespace(wait=lambda timeout_s: (entered.set(), released.wait(timeout_s)))
    eventually(lambda: worker.of(0) and worker.of(1), within_s=60)
    monkeypatch.setattr(Running, "hangs", {1: slow})
    assert entered.wait(60)
    worker.is_leaving.set()
    try:
        eventually(lambda: worker.of(0)[-1].state is RunState.STOPPED, within_s=60)
    finally:
        released.set()
    eventually(lambda: worker.of(1)[-1].state is RunState.STOPPED, within_s=60)


def test_unsendable_report_is_dropped_with_a_log_and_later_ones_arrive(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    eventually(lambda: worker.of(0) and worker.of(1))
    worker.failures = {Path.SLOT_REPORT: 50}
    eventually(lambda: "which are dropped" in caplog.text)
    before = len(worker.reports)
    eventually(lambda: len(worker.reports) > before)
