"""What a task of a DataFrame connector does about failures, over a Spark that is made up."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from fencepost.api import ConfigError, Positions, Split
from fencepost.kafka.errors import ReadTimeoutError
from fencepost.spark.session import SparkError
from fencepost.spark.slot.cores import CoreLedger, CoreUse, NoCoreError
from fencepost.spark.slot.job import ProcessEnds
from fencepost.spark.slot.running_jobs import JobFigures, RunningJobs
from fencepost.spark.split.splits import SplitError
from fencepost.task.channel.message import Admission, TaskReport
from fencepost.task.channel.task_spec import OutputSpec, RunSpec, TaskSpec
from fencepost.task.failure.tolerance import BackOff
from fencepost.testing import eventually
from fencepost.worker.host.dataframe_host import DataFrameHost
from fencepost.worker.host.frame import jobs as frame_jobs
from fencepost.worker.host.frame import task as frame_task
from fencepost.worker.host.split import task as module
from fencepost.worker.host.split.channel import SplitChannel
from fencepost.worker.host.split.task import SplitTask
from support.no_exception import no_exceptions
from support.traced import Traced, id_of, parent_of

_MOST_TURNS = 30


class Runtime:
    def __init__(self) -> None:
        self.is_alive = True
        self.sparkContext: Any = None

    @property
    def session(self) -> Any:
        if not self.is_alive:
            raise SparkError("Spark is not running")
        return self

    def adopt_thread(self, tag: str) -> None:
        _ = self.session

    def driver_thread(self) -> int:
        return 1


class Events:
    """Remembers what is told, in order; a state may have a consequence."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.traces: list[str] = []
        self.said: list[tuple[str, str]] = []  # states with traces, whenever one of them is another
        self.then: dict[str, Callable[[], None]] = {}
        self.counters: Mapping[str, float] = {}  # as they were reported last

    def reported(self, reports: Sequence[TaskReport]) -> None:
        for report in reports:
            self.counters = report.counters
            if self.said[-1:] != [(report.state, report.trace or "")]:
                self.said.append((report.state, report.trace or ""))
            if not self.told or self.told[-1] != report.state:
                self.told.append(report.state)
                self.traces.append(report.trace or "")
                self.then.get(report.state, lambda: None)()

    def crashed(self, incarnations: Sequence[str], reason: str) -> None: ...

    def lost(self, incarnations: Sequence[str], reason: str) -> None:
        self.told.append(f"lost {' '.join(incarnations)}")

    def room_changed(self) -> None: ...


class Stage:
    """One task, with a directory of files that are written when their run ends well.

    `trouble` is called with the names of a run's files before they are written, `listing` before each plan. After the
    last file is written, or too many plans, the task is stopped.
    """

    topic = "t"
    poll_interval_ms = 10

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *files: str) -> None:
        self.files = dict.fromkeys(files, 1)  # and their versions
        self.done: list[str] = []
        self.set_aside_files: list[str] = []
        self.runs: list[list[str]] = []
        self.plans = 0
        self.fenced: list[str] = []
        self.rows_of_parts: list[int] = []
        self.is_exact: bool | Callable[[], bool] = True
        self.rows_max = 0
        self.trouble: Callable[[list[str]], None] = lambda names: None
        self.listing: Callable[[], None] = lambda: None
        self.admission: Callable[[], None] = lambda: None
        self.events, self.runtime, self.ledger = Events(), Runtime(), CoreLedger(1)
        anything = cast(Any, self)
        self.host = DataFrameHost(
            anything,
            self.events,
            self.ledger,
            anything,
            lambda _: cast(Any, lambda _: self),
            SplitChannel("", anything),
            ProcessEnds(),
        )
        self.host.attach(self.runtime)
        monkeypatch.setattr(module, "BACK_OFF_S", 0.0)
        monkeypatch.setattr(frame_task, "BACK_OFF_S", 0.0)
        monkeypatch.setattr(frame_task, "BackOff", lambda control, pauses_s: BackOff(control, (0.0,)))
        monkeypatch.setattr(module, "SplitReader", lambda connector, properties, **how: Reader(self))
        monkeypatch.setattr(module, "run_splits", self.run_splits)
        monkeypatch.setattr(module, "fence", lambda ids, conf_of, timeout_s: self.fenced.append(" ".join(ids)))
        spec = TaskSpec(
            "c",
            0,
            1,
            "i",
            {"name": "c", "connector.class": "X"},
            {},
            run=RunSpec(progress_timeout_ms=60_000),
            output=OutputSpec({}, "o", transactional_id="g-c-0"),
        )
        self.task = SplitTask(self.host, spec, self.runtime)

    def run(self) -> None:
        self.task.thread.start()
        self.task.thread.join(60)
        assert not self.task.thread.is_alive()

    @property
    def written(self) -> list[str]:
        return [name for name, _, version in (file.partition("@") for file in self.done) if version]

    @property
    def trace(self) -> str:
        return self.events.traces[-1]

    # admissions, with positions that are kept

    def decide(self, *_: object) -> Admission:
        self.admission()
        return Admission(True, "", tuple(({"file": each}, {"done": True}) for each in self.done))

    # the connector

    def splits(self, session: Any) -> Iterable[Split]:
        self.plans += 1
        self.listing()
        if self.plans > _MOST_TURNS or set(self.files) <= {*self.written, *self.set_aside_files}:
            self.task.control.stop()
        return [self._split(name) for name in self.files]

    def next_splits(self, session: Any, positions: Positions) -> Iterable[Split]:
        return self.splits(session)

    def _split(self, name: str) -> Split:
        order = sorted(self.files).index(name)
        return Split({"file": f"{name}@{self.files[name]}"}, order=(order,), is_single_file=True, size_bytes=1)

    def is_unchanged(self, session: Any, split: Split) -> bool:
        name, _, version = split.partition["file"].partition("@")
        return str(self.files.get(name)) == version

    def finished(self, session: Any, split: Split, rows: int) -> bool:
        return False

    def set_aside(self, session: Any, split: Split, error: Exception) -> None:
        self.set_aside_files.append(split.partition["file"].partition("@")[0])

    # Spark

    def run_splits(self, runtime: Any, reader: Any, splits: Sequence[Split], url: str, name: str) -> None:
        names = [split.partition["file"].partition("@")[0] for split in splits]
        self.run_name = name
        self.runs.append(names)
        self.rows_of_parts.append(self.ask("spec", name)["rows_per_commit"])
        self.trouble(names)
        if not self.ask("unchanged", name)["is_unchanged"]:
            raise SplitError("the source changed while it was read", is_broken=False)
        self.ask("report", name, rows=[1] * len(names), skipped=False)
        self.done += [split.partition["file"] for split in splits]

    def ask(self, verb: str, name: str | None = None, **body: Any) -> dict[str, Any]:
        return self.host.channel.handlers()[f"/split/{verb}"]({"run": name or self.run_name, **body})


class Reader:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def rows_max(self) -> int:
        return self._stage.rows_max

    def is_exact(self, session: Any, split: Split) -> bool:
        found = self._stage.is_exact
        return found if isinstance(found, bool) else found()


def fails(times: int, error: BaseException) -> Callable[..., None]:
    """Return what raises so many times."""
    left = [error] * times

    def act(*_: object) -> None:
        if left:
            raise left.pop()

    return act


def job_failed(text: str = "executor lost") -> SplitError:
    return SplitError(text, is_broken=False)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stage]:
    return lambda *files: Stage(monkeypatch, *files)


# what passes


@pytest.mark.parametrize("error", [ReadTimeoutError("a transaction hangs"), OSError("the name node is away")])
@pytest.mark.parametrize("place", ["admission", "listing"])
def test_task_continues_when_planning_works_again(stage: Callable[..., Stage], place: str, error: Exception) -> None:
    it = stage("a")
    setattr(it, place, fails(20, error))
    it.run()
    assert it.written == ["a"]
    assert "FAILED" not in it.events.told


def test_task_continues_when_the_worker_failed_for_a_while_to_serve_an_executor(
    stage: Callable[..., Stage],
) -> None:
    it = stage("a")
    it.trouble = lambda names: _asks_in_vain(it)
    it.run()
    assert it.written == ["a"]
    assert "FAILED" not in it.events.told


def _asks_in_vain(it: Stage) -> None:
    """Ask for admission, as an executor does, which knows of the worker's error only that there was one."""
    if len(it.runs) < 10:
        it.admission = fails(1, ReadTimeoutError("a transaction hangs"))
        try:
            it.ask("admit")
        except ReadTimeoutError:
            raise job_failed("/split/admit: 500") from None


def test_task_continues_when_a_failure_reported_by_an_executor_has_passed(stage: Callable[..., Stage]) -> None:
    it = stage("a")

    def tells(names: list[str]) -> None:
        if len(it.runs) < 10:
            it.ask("trouble", reason="CommitUnknownError: the connection was lost")
            raise job_failed("some error of Python's")

    it.trouble = tells
    it.run()
    assert it.written == ["a"]
    assert "FAILED" not in it.events.told
    assert len(it.runs) == 10


def test_unexpected_planning_errors_fail_the_task_after_a_few_attempts(stage: Callable[..., Stage]) -> None:
    it = stage("a")
    it.listing = fails(100, RuntimeError("a bug"))
    it.run()
    assert it.plans == 5
    assert it.events.told[-1] == "FAILED"


def test_a_wrong_setting_fails_the_task_at_once(stage: Callable[..., Stage]) -> None:
    it = stage("a")
    it.listing = fails(100, ConfigError("input.path: there is no such directory"))
    it.run()
    assert it.plans == 1
    assert it.events.told[-1] == "FAILED"


@pytest.mark.parametrize("error", no_exceptions(), ids=repr)
def test_base_exception_fails_the_task_at_once_with_its_trace(
    stage: Callable[..., Stage], error: BaseException
) -> None:
    it = stage("a")
    it.listing = fails(100, error)
    it.run()
    assert (it.plans, it.events.told[-1]) == (1, "FAILED")
    assert type(error).__name__ in it.trace


@pytest.mark.parametrize("error", [OSError("the group cannot be left"), *no_exceptions()], ids=repr)
def test_task_makes_its_last_report_when_its_close_raises(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    it = stage("a")
    monkeypatch.setattr(it.task, "_close", fails(1, error))
    it.run()
    assert (it.written, it.events.told[-1]) == (["a"], "FAILED")
    assert type(error).__name__ in it.trace


# trouble is shown


def test_status_shows_a_transient_error_and_its_age_until_it_has_passed(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = stage("a")
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    times_away = fails(3, OSError("the name node is away"))

    def listing() -> None:
        clock[0] += 20.0
        times_away()

    it.listing = listing
    it.run()
    shown = [trace for state, trace in it.events.said if state == "RUNNING"]
    assert [text.partition("\n")[0] for text in shown] == ["", "the name node is away", ""]
    assert all(text.endswith(", and retrying") for text in shown[1:-1])
    assert it.events.said[-1] == ("STOPPED", "")


# what does not return


def shown(it: Stage) -> str:
    """Return the trace in the task's status after a look at it."""
    it.task.look()
    return it.events.said[-1][1]


def test_stack_of_a_stuck_task_is_shown_until_it_moves(stage: Callable[..., Stage]) -> None:
    it, over = stage("a"), threading.Event()

    def listing_for_long() -> None:
        it.task.control.moved_at -= 61
        over.wait(60)

    it.listing = listing_for_long
    it.task.thread.start()
    try:
        said = eventually(lambda: shown(it))
        assert said.startswith("The task has stood still since")
        assert "in listing_for_long" in said
        assert (it.events.counters["stands_still"], it.events.counters["hangs"]) == (1.0, 1.0)
    finally:
        over.set()
        it.task.thread.join(60)
    assert it.events.said[-1] == ("STOPPED", "")
    count = len(it.events.said)
    it.task.look()
    assert len(it.events.said) == count, "nothing follows the last report"


def test_task_is_stuck_only_if_spark_is_and_shows_the_stacks_of_its_executors(
    stage: Callable[..., Stage],
) -> None:
    it, over = stage("a"), threading.Event()

    def write(names: list[str]) -> None:
        over.wait(60)

    def told(**more: Any) -> None:
        message = {"run": it.run_name, "place": "process 7", "stack": "  in send", "waits_for_kafka": False, **more}
        it.host.channel.handlers()["/run/whereabouts"](message)

    it.trouble = write
    it.task.thread.start()
    try:
        eventually(lambda: it.runs)
        for figures in range(3):
            it.task.control.moved_at -= 61
            it.task.work.saw(JobFigures(figures, waits_for_executors=False), None)
            it.task.look()
        assert it.events.counters.get("stands_still", 0.0) == 0.0
        told()
        it.task.control.moved_at -= 61
        it.task.work.saw(JobFigures(2, waits_for_executors=False), None)
        said = eventually(lambda: "process 7:\n  in send" in shown(it) and shown(it))
        assert "in write" in said
        assert it.events.counters["hangs"] == 1.0
        it.task.control.move()
        it.task.look()
        told(waits_for_kafka=True)
        it.task.control.moved_at -= 61
        it.task.look()
        assert (it.events.counters["stands_still"], it.events.counters["hangs"]) == (1.0, 0.0)
    finally:
        over.set()
        it.task.thread.join(60)
    assert it.written == ["a"]


def stuck(it: Stage, over: threading.Event, look: Callable[[], None]) -> bool:
    """Return whether a task that is inside a call for longer than it may is said to stand still after a look."""
    it.trouble = lambda _: over.wait(60) and None
    if it.task.thread.ident is None:
        it.task.thread.start()
    eventually(lambda: it.runs)
    it.task.control.moved_at -= 61
    look()
    it.task.look()
    return it.events.counters.get("stands_still", 0.0) == 1.0


def test_task_is_not_stuck_and_shows_the_wait_while_its_jobs_wait_for_executors(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    it, over = stage("a"), threading.Event()
    waits, runs = JobFigures(7, waits_for_executors=True), JobFigures(7, waits_for_executors=False)
    try:
        for _ in range(3):
            assert not stuck(it, over, lambda: it.task.work.saw(waits, None))
        assert shown(it) == ""
        monkeypatch.setattr(frame_jobs, "FIGURES_S", 0.0)
        assert not stuck(it, over, lambda: it.task.work.saw(waits, None))
        assert shown(it).startswith("Waits for executors: since ")
        assert "Waits for executors" in caplog.text
        monkeypatch.undo()
        it.task.work.saw(runs, None)
        assert shown(it) == ""
        assert stuck(it, over, lambda: it.task.work.saw(runs, None))
    finally:
        over.set()
        it.task.thread.join(60)
    assert it.written == ["a"]


def test_task_is_not_stuck_while_sparks_driver_works_for_it_without_a_job(stage: Callable[..., Stage]) -> None:
    it, over = stage("a"), threading.Event()
    try:
        it.task.work.saw(None, 100)
        assert not stuck(it, over, lambda: it.task.work.saw(None, 101))
        assert not stuck(it, over, lambda: it.task.work.saw(None, 102))
        assert stuck(it, over, lambda: it.task.work.saw(None, 102))
        assert "in stuck" in shown(it) or "in wait" in shown(it)
    finally:
        over.set()
        it.task.thread.join(60)


def test_stack_of_sparks_driver_is_shown_when_it_works_very_long_without_a_job(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may try something again and again without end."""
    monkeypatch.setattr(RunningJobs, "driver_stack", lambda *_: "  at catalog.Client.retry")
    it, over = stage("a"), threading.Event()

    def seen(allocated: int, jobs: JobFigures | None = None) -> str:
        it.task.work.saw(jobs, allocated)
        return shown(it)

    try:
        it.task.work.saw(None, 1)
        assert not stuck(it, over, lambda: it.task.work.saw(None, 2))
        it.task.control.moved_at -= 601
        assert "Spark's driver" not in seen(2), "it waits, as while it is paused"
        said = seen(3)
        assert said.startswith("Spark's driver has been at one call of the task since ")
        assert said.endswith("It is here:\n  at catalog.Client.retry")
        assert seen(4) == said
        assert seen(5, JobFigures(7, waits_for_executors=False)) == ""
        it.task.control.moved_at -= 601
        assert seen(6).startswith("Spark's driver")
        it.task.control.move()
        assert seen(7) == ""
    finally:
        over.set()
        it.task.thread.join(60)


# Spark goes


@pytest.mark.parametrize("end", ["abandon", "lost"])
def test_an_abandoned_task_that_hangs_holds_no_core(stage: Callable[..., Stage], end: str) -> None:
    """Else each restart of a task whose code hangs takes another one, until no DataFrame task runs."""
    it, hung = stage("a"), threading.Event()
    it.trouble = lambda _: cast(None, hung.wait(60))
    it.task.thread.start()
    eventually(lambda: it.runs)
    assert it.ledger.free == 0
    getattr(it.task, end)()
    assert it.ledger.free == 1
    it.ledger.take(1, CoreUse.SPLIT)  # by another task
    hung.set()
    it.task.thread.join(60)
    assert it.ledger.free == 0


def test_task_is_abandoned_at_once_while_sparks_jvm_hangs(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = stage("a")
    moves_on, cancelled, waited = threading.Event(), threading.Event(), []

    def cancel_group(context: Any, group: str) -> None:
        waited.append(moves_on.wait(60))
        cancelled.set()

    def abandoned(names: list[str]) -> None:
        it.task.abandon()
        moves_on.set()

    monkeypatch.setattr("fencepost.worker.host.frame.jobs.cancel_group", cancel_group)
    monkeypatch.setattr(Runtime, "sparkContext", None, raising=False)
    it.trouble = abandoned
    it.run()
    assert cancelled.wait(60)
    assert waited == [True], "abandon waited for the JVM"


def test_a_task_starts_again_when_spark_goes(stage: Callable[..., Stage]) -> None:
    it = stage("a")
    it.host.start(it.task.spec)
    (thread,) = (each for each in threading.enumerate() if each.name == it.task.thread.name)
    it.runtime.is_alive = False
    it.host.attach("Spark has gone")
    thread.join(60)
    assert not thread.is_alive()
    assert it.events.told[-1] == "lost i"
    assert "FAILED" not in it.events.told


def test_task_waits_to_be_given_up_when_spark_is_gone_but_not_yet_reported(stage: Callable[..., Stage]) -> None:
    it = stage("a")
    turns = []

    def spark_goes(*_: object) -> None:
        it.runtime.is_alive = False
        turns.append(it.runtime)
        if len(turns) == 10:
            it.task.lost()
        raise ConfigError("the JVM does not answer")

    it.runtime.adopt_thread = spark_goes  # type: ignore[method-assign]
    it.run()
    assert len(turns) == 10
    assert it.events.told == []


# what a transaction cannot hold


def expires(it: Stage, times: int = 1) -> Callable[[list[str]], None]:
    def act(names: list[str]) -> None:
        if len(it.runs) <= times:
            it.ask("expired", after_s=61.0)
            raise job_failed("fenced")

    return act


@pytest.mark.parametrize("chooses", [True, False])
def test_run_receives_the_permission_to_choose_its_client(stage: Callable[..., Stage], *, chooses: bool) -> None:
    it = stage("a")
    it.task.spec = replace(it.task.spec, output=replace(it.task.spec.output, chooses_client=chooses))
    told = []
    it.trouble = lambda names: told.append(it.ask("spec")["chooses_client"])
    it.run()
    assert told == [chooses]


def test_a_split_is_committed_in_parts_when_its_transaction_has_expired(stage: Callable[..., Stage]) -> None:
    it = stage("a")
    it.trouble = expires(it)
    it.run()
    assert (it.written, it.rows_of_parts) == (["a"], [0, 100_000])


def test_the_parts_of_a_split_become_smaller_while_their_transactions_expire(stage: Callable[..., Stage]) -> None:
    """A query that rests for longer than a transaction may take must not have one open then."""
    it = stage("a")
    it.trouble = expires(it, 3)
    it.run()
    assert (it.written, it.rows_of_parts) == (["a"], [0, 100_000, 10_000, 1_000])


def test_inexact_split_fails_the_task_when_its_transaction_has_expired(
    stage: Callable[..., Stage],
) -> None:
    it = stage("a")
    it.trouble, it.is_exact = expires(it), False
    it.run()
    assert it.events.told[-1] == "FAILED"
    assert "ran for 61 s, longer than the producer's transaction.timeout.ms=60000" in it.trace


def test_slow_run_is_retried_when_its_transaction_has_not_expired(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a core, or for Kafka, or its process was killed."""
    it = stage("a")
    clock = iter(range(0, 100_000, 100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    it.trouble, it.is_exact = fails(3, job_failed()), False
    it.run()
    assert (it.written, it.rows_of_parts) == (["a"], [0] * 4)


def test_split_in_parts_is_retried_when_one_of_its_transactions_has_expired(stage: Callable[..., Stage]) -> None:
    it = stage("a")
    it.trouble, it.rows_max = expires(it), 300
    it.run()
    assert (it.written, it.rows_of_parts) == (["a"], [300, 300])


def test_split_in_parts_fails_the_task_when_its_transactions_expire_repeatedly(
    stage: Callable[..., Stage],
) -> None:
    it = stage("a")
    it.trouble, it.rows_max = expires(it, 100), 300
    it.run()
    assert it.events.told[-1] == "FAILED"
    assert "fenced" in it.trace
    assert len(it.runs) == 5


# neighbours


def test_splits_bundled_with_a_growing_file_are_written(stage: Callable[..., Stage]) -> None:
    it = stage(*(f"{n:02}" for n in range(10)), "growing")
    it.trouble = lambda names: it.files.update(growing=it.files["growing"] + ("growing" in names))
    it.run()
    assert it.written == [f"{n:02}" for n in range(10)]
    assert "FAILED" not in it.events.told


def test_splits_bundled_before_a_refused_record_are_written(stage: Callable[..., Stage]) -> None:
    it = stage("a", "b", "refused")
    it.trouble = lambda names: fails("refused" in names, job_failed("Broker: Message size too large"))()
    it.run()
    assert it.written == ["a", "b"]
    assert it.events.told[-1] == "FAILED"
    assert "too large" in it.trace
    assert "split {'file': 'refused@1'}, meant for topic t" in it.trace


def test_splits_bundled_before_one_that_does_not_fit_the_settings_are_written(stage: Callable[..., Stage]) -> None:
    it = stage("a", "b", "other-columns")
    it.trouble = lambda names: fails("other-columns" in names, ConfigError("key.field: there is no such column"))()
    it.run()
    assert it.written == ["a", "b"]
    assert it.events.told[-1] == "FAILED"
    assert "split {'file': 'other-columns@1'}, meant for topic t" in it.trace


def test_broken_file_is_set_aside_and_other_files_of_its_bundle_are_written(stage: Callable[..., Stage]) -> None:
    it = stage("a", "broken", "c")
    it.trouble = lambda names: fails("broken" in names, SplitError("malformed", is_broken=True))()
    it.run()
    assert (it.written, it.set_aside_files) == (["a", "c"], ["broken"])
    counted = it.events.counters
    assert (counted["records_polled"], counted["records_written"], counted["commits"]) == (2, 2, 2)
    assert counted["error_errors"] == 1
    assert counted["last_commit_s"] >= counted["last_record_s"] > 1000 * counted["commits"]
    assert counted["error_last_error_ms"] > 0
    assert it.runs == [["a", "broken", "c"], ["a"], ["broken"], ["c"]]


def test_files_are_listed_again_when_a_planned_file_is_missing(stage: Callable[..., Stage]) -> None:
    """A retention job takes a file out of every bundle: the rest of the plan is older than that."""
    it = stage(*(f"{n:03}" for n in range(320)))
    gone = [f"{n:03}" for n in range(0, 320, 64)]
    it.trouble = lambda names: [it.files.pop(name, 0) for name in gone] and None
    it.run()
    assert it.written == [f"{n:03}" for n in range(320) if n % 64]
    assert len(it.runs) == 1 + 5
    assert "FAILED" not in it.events.told


def test_rest_of_a_plan_is_not_run_when_a_file_in_its_own_run_is_missing(stage: Callable[..., Stage]) -> None:
    it = stage("a", "b", "c", "d")
    it.rows_max = 300
    it.trouble = lambda names: [it.files.pop(name, 0) for name in "abc"] and None
    it.run()
    assert it.runs == [["a"], ["d"]]
    assert it.written == ["d"]


# who waits for whom


def test_exactness_of_a_split_is_checked_before_its_job_takes_a_core(stage: Callable[..., Stage]) -> None:
    """To know it may take a job of its own."""
    it = stage("a")
    it.rows_max = 300
    running: list[bool] = []
    asked: list[bool] = []
    it.is_exact = lambda: asked.append(bool(running)) or True
    begun = it.ask

    def ask(verb: str, name: str | None = None, **body: Any) -> dict[str, Any]:
        running.append(True)
        return begun(verb, name, **body)

    it.ask = ask  # type: ignore[method-assign]
    it.run()
    assert asked == [False]
    assert it.rows_of_parts == [300]


def test_task_that_waits_for_a_core_can_be_paused(stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> None:
    it = stage("a")
    asked = []

    def take(n: int, use: CoreUse) -> None:
        asked.append(use)
        it.task.control.pause()
        if len(asked) > 10:
            raise AssertionError("it goes on asking")
        raise NoCoreError("none is free")

    monkeypatch.setattr(it.ledger, "take", take)
    it.events.then["PAUSED"] = it.task.control.stop
    it.run()
    assert len(asked) == 1
    assert "PAUSED" in it.events.told
    assert it.runs == []


# what may be left open


def left_open(it: Stage, then: Callable[[], None]) -> Callable[[list[str]], None]:
    def act(names: list[str]) -> None:
        it.fenced.clear()
        then()
        raise job_failed("the process was killed")

    return act


BOTH = "g-c-0 g-c-0#1"


def test_both_lanes_are_fenced_before_the_position_is_read(stage: Callable[..., Stage]) -> None:
    it = stage("a")
    seen: list[list[str]] = []
    it.admission = lambda: seen.append(list(it.fenced))
    it.run()
    assert seen[0] == [BOTH]


def test_a_paused_task_leaves_no_transaction_open(stage: Callable[..., Stage]) -> None:
    it = stage("a")
    it.trouble = left_open(it, it.task.control.pause)
    fenced: list[list[str]] = []
    it.events.then["PAUSED"] = lambda: (fenced.append(list(it.fenced)), it.task.control.stop())[0]
    it.run()
    assert fenced == [[BOTH]]


def test_a_failed_task_leaves_no_transaction_open(stage: Callable[..., Stage]) -> None:
    it = stage("a")
    it.trouble = left_open(it, lambda: None)
    fenced: list[list[str]] = []
    it.events.then["FAILED"] = lambda: fenced.append(list(it.fenced))
    it.run()
    assert fenced == [[BOTH]]


def test_supervisor_is_notified_when_a_stopped_task_may_leave_transactions_open(
    stage: Callable[..., Stage],
) -> None:
    """It fences where no other start follows; one that does must not be fenced by its predecessor."""
    it = stage("a")
    it.trouble = left_open(it, it.task.control.stop)
    it.run()
    assert it.events.told == ["RUNNING", "lost i", "STOPPED"]
    assert it.fenced == []


def test_stopped_task_without_open_transaction_just_stops(stage: Callable[..., Stage]) -> None:
    it = stage("a")
    it.run()
    assert it.events.told == ["RUNNING", "STOPPED"]


def test_run_is_traced_to_its_commit_and_a_failed_run_names_its_error_class(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = Traced()
    monkeypatch.setattr(frame_task, "tracing_of", lambda spec: traced.tracing)
    it, headers = stage("a", "b"), list[Any]()
    fail = fails(1, ReadTimeoutError("secret"))

    def admitted(names: list[str]) -> None:
        headers.append(it.ask("admit")["headers"])
        fail(names)

    it.trouble = admitted
    it.run()
    assert it.written == ["a", "b"]
    failed, *_ = [span for span in traced.all if span.name == "send t"]
    assert (failed.attributes["fencepost.outcome"], failed.attributes["error.type"]) == ("failed", "ReadTimeoutError")
    span, commit = traced.spans["send t"], traced.spans["commit"]
    assert span.attributes["messaging.batch.message_count"] == span.attributes["fencepost.splits"] == 2
    assert parent_of(commit) == id_of(span)
    assert [int(value.split("-")[2], 16) for ((_, value),) in headers] == [id_of(failed), id_of(span)]
    assert "secret" not in "".join(str(each.attributes) for each in traced.all)


# steps of a sequence

ORDERS = {"table": "orders"}


class Steps(Stage):
    """A table of which each step has a row, and three steps are planned at once; it ends after `last`.

    `before` is called with an executor's step before its admission, `after` when it has committed.
    """

    last = 5

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.place: dict[str, int] | None = None
        self.rows: list[int] = []
        self.topics: list[str] = []
        self.before: Callable[..., None] = lambda number: None
        self.after: Callable[..., None] = lambda number: None

    def decide(self, *_: object) -> Admission:
        return Admission(True, "", () if self.place is None else ((ORDERS, self.place),))

    def next_splits(self, session: Any, positions: Positions) -> Iterable[Split]:
        self.plans += 1
        after = positions.offset(ORDERS)
        assert positions.is_mine(ORDERS)
        first = 1 if after is None else after["id"] + 1
        if self.plans > _MOST_TURNS or first > self.last:
            self.task.control.stop()
        numbers = range(first, min(first + 3, self.last + 1))
        return [
            Split(ORDERS, after={"id": n - 1} if n > 1 else None, offset={"id": n}, topic="t-orders") for n in numbers
        ]

    def is_unchanged(self, session: Any, split: Split) -> bool:
        return True

    def run_splits(self, runtime: Any, reader: Any, splits: Sequence[Split], url: str, name: str) -> None:
        self.run_name = name
        spec = self.ask("spec", name)
        number = spec["offset"]["id"]
        self.before(number)
        (position,) = self.ask("admit")["positions"]
        if position is None:
            self.topics.append(spec["topic"])
            self.rows.append(number)
            self.place = spec["offset"]
        self.ask("report", name, rows=[1 if position is None else 0], skipped=position is not None)
        self.after(number)


def test_steps_are_committed_in_order_each_with_its_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Steps(monkeypatch)
    it.run()
    assert (it.rows, it.place, set(it.topics)) == ([1, 2, 3, 4, 5], {"id": 5}, {"t-orders"})
    assert "FAILED" not in it.events.told


def test_step_is_not_written_again_when_its_commit_was_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Steps(monkeypatch)
    it.after = fails(3, job_failed("the answer was lost"))
    it.run()
    assert it.rows == [1, 2, 3, 4, 5]


def test_step_without_its_predecessor_is_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Steps(monkeypatch)

    def moved(number: int) -> None:
        if it.plans == 1 and number == 2:
            it.place = {"id": 3}  # as if somebody else had written steps 2 and 3

    it.before = moved
    it.run()
    assert it.rows == [1, 4, 5]
    assert "FAILED" not in it.events.told


def test_step_that_is_committed_already_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Steps(monkeypatch)

    def done(number: int) -> None:
        if it.plans == 1 and number == 2:
            it.place = {"id": 2}

    it.before = done
    it.run()
    assert it.rows == [1, 3, 4, 5]


def test_step_with_broken_content_fails_the_task_and_is_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Steps(monkeypatch)

    def broken(number: int) -> None:
        if number == 3:
            raise SplitError("a value that is no number", is_broken=True)

    it.before = broken
    it.run()
    assert (it.rows, it.set_aside_files, it.events.told[-1]) == ([1, 2], [], "FAILED")
    assert "{'table': 'orders'}, meant for topic t-orders" in it.trace


def test_step_for_a_closed_topic_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Steps(monkeypatch)
    look_up = it.task.spec.look_up
    closed = replace(look_up.closed, writes=("t-orders",))
    it.task.spec = replace(it.task.spec, look_up=replace(look_up, closed=closed))
    it.run()
    assert (it.rows, it.events.told[-1]) == ([], "FAILED")
    assert "would go to topic t-orders: this topic is the workers'" in it.trace
