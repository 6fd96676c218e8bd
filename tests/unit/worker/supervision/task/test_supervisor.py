"""What should run against what runs: the supervisor, with hosts that only record calls."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from fencepost.cluster.running import Departures, Start
from fencepost.cluster.threads import EventLoop
from fencepost.config.reference import RawConfig
from fencepost.config.worker import WorkerConfig
from fencepost.storage import records
from fencepost.storage.change import Assignment, TargetState, TaskId, WorkerAssignment
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.storage.status_topic import State
from fencepost.task.channel.message import RunState, TaskReport
from fencepost.task.channel.task_spec import LookUpSpec, OutputSpec, References, RunSpec, TaskSpec
from fencepost.testing import eventually
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.automatic_restart import AutomaticRestarts, RestartSchedule
from fencepost.worker.supervision.port import NoRoomError
from fencepost.worker.supervision.task import supervisor as module
from fencepost.worker.supervision.task.endings import Failures
from fencepost.worker.supervision.task.handle import HandleState, StartIdentity, TaskHandle
from fencepost.worker.supervision.task.specs import AbandonedError, AwayError
from fencepost.worker.supervision.task.supervisor import TaskSupervisor
from fencepost.worker.supervision.task.suspicion import TRIAL_S
from fencepost.worker.supervision.task_metrics import TaskTotals
from support.memory_topic import MemoryTopic
from support.no_exception import no_exceptions
from support.settings import SETTINGS

WORKER = {**SETTINGS, "task.shutdown.graceful.timeout.ms": "5000"}
FIRST, SECOND = TaskId("c", 0), TaskId("c", 1)


class RecordingHost:
    """A `TaskHost` that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.has_room = True
        self.has_cores = True  # for slots of their own
        self.neighbours: Sequence[str] = ()
        self.error: BaseException | None = None
        self.specs: list[TaskSpec] = []

    def start(self, spec: TaskSpec) -> None:
        if not self.has_room or (spec.run.is_alone and not self.has_cores):
            raise NoRoomError("all cores are taken")
        if self.error is not None:
            raise self.error
        self.specs.append(spec)
        self.told.append((f"start {spec.target_state}", spec.incarnation))

    def stop(self, incarnation: str) -> None:
        self.told.append(("stop", incarnation))

    def pause(self, incarnation: str) -> None:
        self.told.append(("pause", incarnation))

    def resume(self, incarnation: str) -> None:
        self.told.append(("resume", incarnation))

    def abandon(self, incarnation: str) -> Sequence[str]:
        self.told.append(("abandon", incarnation))
        return self.neighbours

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.told]


class Board:
    def __init__(self) -> None:
        self.said: list[tuple[TaskId, State, str | None]] = []
        self.said_in: list[int | None] = []
        self.plans: list[RestartSchedule | None] = []
        self.topics: list[str] = []

    def task(self, task: TaskId, state: State, trace: str | None = None, generation: int | None = None) -> None:
        self.said.append((task, state, trace))
        self.said_in.append(generation)

    def failed(self, task: TaskId, trace: str, plan: RestartSchedule | None) -> None:
        self.task(task, State.FAILED, trace)
        self.plans.append(plan)

    def topic(self, connector: str, topic: str, task: int) -> None:
        self.topics.append(topic)

    def states(self, task: TaskId = FIRST) -> list[State]:
        return [state for each, state, _ in self.said if each == task]


class Prepared:
    """A `Preparation` whose outcome a test chooses."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.ttl_ms: int | None = None
        self.away = ""
        self.config: dict[str, str] = {}
        self.run = RunSpec()

    def why_away(self, config: RawConfig) -> str:
        return self.away

    def prepare(self, handle: TaskHandle) -> TaskSpec:
        if self.error is not None:
            raise self.error
        return TaskSpec(
            handle.id.connector,
            handle.id.task,
            handle.generation,
            handle.incarnation,
            {"connector.class": "X", **self.config},
            {},
            target_state=handle.target,
            output=OutputSpec({}, "o", transactional_id="g-c-0"),
            run=self.run,
            look_up=LookUpSpec((), References({}, {}, {}, ttl_ms=self.ttl_ms)),
        )


class HeldLoop:
    """An `EventLoop` whose events are carried out by the test, and the calls that may wait at once."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._events: deque[Callable[[], None]] = deque()
        self.put = self._events.append
        self.is_over = False

    def submit(self, key: Any, act: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(act(*arguments))
        except BaseException as error:
            done.set_exception(error)
        return done

    def end(self) -> None:
        self.is_over = True

    def wait(self, timeout_s: float) -> None: ...

    def run(self) -> None:
        """Carry out what is queued, a tick, and what follows from it."""
        self._run_queued()
        self._tick()
        self._run_queued()

    def _run_queued(self) -> None:
        while self._events:
            self._events.popleft()()


class Stage:
    """A supervisor whose events are carried out by the test, in the test's time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr(module, "EventLoop", self._held_loop)
        monkeypatch.setattr(module, "Failures", partial(Failures, restarts=AutomaticRestarts(lambda: 0.5)))
        self.host, self.board, self.preparation = RecordingHost(), Board(), Prepared()
        self.departures, self.totals = Departures(5.0, lambda: self.now), TaskTotals()
        self.told_stopped: list[Start] = []
        self.locked_out: list[TaskSpec] = []
        self.snapshot = ClusterSnapshot()
        settings = WorkerSettings(WorkerConfig(WORKER), "http://w:1", "me")
        self.supervisor = TaskSupervisor(
            settings,
            self.preparation,  # type: ignore[arg-type]
            self,
            self.board,  # type: ignore[arg-type]
            self.totals,
            self.departures,
            self,
            self,
        )
        self.config = MemoryTopic()
        self.write = self.config.write
        self.write(records.connector_config("c", {"name": "c"}))

    def _held_loop(self, tick: Callable[[], None]) -> HeldLoop:
        self.loop = HeldLoop(tick)
        return self.loop

    def of(self, config: RawConfig) -> RecordingHost:
        return self.host

    def ended_here(self, starts: Sequence[Start]) -> None:
        self.told_stopped.extend(starts)

    def lock_out(self, spec: TaskSpec) -> None:
        self.locked_out.append(spec)

    def tasks(self, count: int) -> None:
        """A new task generation, all of it assigned here."""
        ids = [TaskId("c", n) for n in range(count)]
        self.write(*[records.task_config(t, {}) for t in ids], records.tasks_commit("c", count))
        self.assign(ids)

    def assign(self, ids: list[TaskId]) -> None:
        self.write(records.assignment(Assignment(1, (WorkerAssignment("me", "http://w:1", ("c",), tuple(ids)),))))

    def share(self, tasks: dict[str, list[TaskId]], generation: int = 1) -> None:
        """Assign over several workers."""
        workers = tuple(WorkerAssignment(who, f"http://{who}:1", (), tuple(ids)) for who, ids in tasks.items())
        self.write(records.assignment(Assignment(generation, workers)))

    def target(self, state: TargetState) -> None:
        self.write(records.target_state("c", state))

    def tick(self, after_s: float = 0.0) -> None:
        """Carry out all that is due."""
        self.now += after_s
        old, self.snapshot = self.snapshot, self.config.snapshot
        self.departures.changed(old, self.snapshot)
        self.supervisor.changed(self.snapshot)
        self.loop.run()

    def begin_shutdown(self) -> None:
        """Let a shutdown begin with the next tick."""
        self.supervisor.shut_down(0.0)

    def handle(self, task: TaskId = FIRST) -> TaskHandle:
        found = self.supervisor.handle(task)
        assert found is not None
        return found

    def first_stopping(self) -> TaskHandle:
        return next(h for h in self.supervisor.starts(FIRST) if h.state is HandleState.STOPPING)

    def hosted(self) -> list[TaskHandle]:
        """Return the starts that a slot has, in the order of their tasks."""
        handles = [self.handle(TaskId("c", n)) for n in range(self.supervisor.count())]
        return [handle for handle in handles if handle.state is HandleState.HOSTED]

    def report(
        self, handle: TaskHandle, state: str, trace: str | None = None, written: int = 0, hangs: int = 0
    ) -> None:
        """`written`: records to topic `t`."""
        counters = {"records_written": float(written), "hangs": float(hangs)}
        topics = ("t",) if written else ()
        report = TaskReport(
            handle.id.connector, handle.id.task, handle.incarnation, RunState(state), trace, counters, topics
        )
        self.supervisor.reported([report])
        self.tick()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


@pytest.fixture
def running(stage: Stage) -> Stage:
    stage.tasks(1)
    stage.tick()
    stage.report(stage.handle(), "RUNNING")
    return stage


def test_assigned_task_is_started_once_and_reported_as_running(running: Stage) -> None:
    running.tick()
    running.report(running.handle(), "RUNNING")
    assert running.host.verbs == ["start STARTED"]
    assert running.board.states() == [State.RUNNING]


def test_topic_is_noted_when_records_went_to_it_and_not_at_a_tasks_last_report(running: Stage) -> None:
    """Topics that were reset stay so until then, also when a task ends that wrote to them before."""
    older = running.handle()
    running.report(older, "RUNNING", written=3)
    running.report(older, "RUNNING", written=3)
    running.tasks(1)
    running.tick()
    running.report(older, "STOPPED", written=3)
    running.report(older, "STOPPED", written=3)
    assert running.board.topics == ["t"]
    newer = running.handle()
    running.report(newer, "RUNNING", written=4)
    running.tasks(1)
    running.tick()
    running.report(newer, "STOPPED", written=5)
    assert running.board.topics == ["t", "t", "t"]


def test_a_task_of_another_worker_is_not_started(stage: Stage) -> None:
    stage.tasks(2)
    stage.assign([SECOND])
    stage.tick()
    assert stage.supervisor.handle(FIRST) is None
    assert stage.host.verbs == ["start STARTED"]


def test_no_task_runs_of_a_stopped_or_deleted_connector(stage: Stage) -> None:
    stage.tasks(1)
    stage.target(TargetState.STOPPED)
    stage.tick()
    assert stage.host.told == []
    stage.target(TargetState.STARTED)
    stage.write(records.connector_removed("c"))
    stage.tick()
    assert stage.host.told == []


def test_a_new_generation_starts_only_when_the_older_start_has_ended(running: Stage) -> None:
    older = running.handle()
    running.tasks(1)
    running.tick()
    assert running.host.told[-1] == ("stop", older.incarnation)
    running.tick(after_s=1)
    assert running.host.verbs == ["start STARTED", "stop"]
    assert running.supervisor.starts(FIRST) == [older]
    running.report(older, "STOPPED")
    assert running.host.verbs == ["start STARTED", "stop", "start STARTED"]
    assert running.handle().incarnation != older.incarnation
    assert running.supervisor.starts(FIRST) == [running.handle()]


def test_no_task_of_a_new_generation_starts_while_an_older_one_is_stopping(stage: Stage) -> None:
    """Its fencing round would cut off the last commit of those that are stopping."""
    stage.tasks(2)
    stage.tick()
    older = [stage.handle(FIRST), stage.handle(SECOND)]
    stage.tasks(1)
    stage.tick()
    stage.report(older[0], "STOPPED")
    assert stage.host.verbs == ["start STARTED", "start STARTED", "stop", "stop"]
    stage.report(older[1], "STOPPED")
    assert stage.host.verbs[4:] == ["start STARTED"]


def test_a_restart_of_one_task_does_not_wait_for_another(stage: Stage) -> None:
    stage.tasks(2)
    stage.tick()
    older = [stage.handle(FIRST), stage.handle(SECOND)]
    stage.supervisor.restart(FIRST)
    stage.supervisor.restart(SECOND)
    stage.tick()
    stage.report(older[0], "STOPPED")
    assert stage.host.verbs[4:] == ["start STARTED"]


def test_a_task_that_does_not_stop_in_time_is_abandoned_and_its_neighbours_move(stage: Stage) -> None:
    stage.tasks(2)
    stage.tick()
    deaf, neighbour = stage.handle(FIRST), stage.handle(SECOND)
    stage.host.neighbours = [neighbour.incarnation]
    stage.supervisor.restart(FIRST)
    stage.tick()
    stage.tick(after_s=4.9)
    assert "abandon" not in stage.host.verbs
    stage.tick(after_s=0.2)
    assert ("abandon", deaf.incarnation) in stage.host.told
    assert ("stop", neighbour.incarnation) in stage.host.told
    assert stage.handle(FIRST).incarnation != deaf.incarnation
    stage.report(neighbour, "STOPPED")
    assert stage.handle(SECOND).state is HandleState.HOSTED
    assert stage.handle(SECOND).incarnation != neighbour.incarnation


def test_late_reports_of_an_abandoned_task_are_ignored(running: Stage) -> None:
    older = running.handle()
    running.supervisor.restart(FIRST)
    running.tick()
    running.tick(after_s=6)
    newer = running.handle()
    running.report(newer, "RUNNING")
    said = list(running.board.said)
    running.report(older, "RUNNING")
    running.report(older, "FAILED", "late")
    running.report(older, "STOPPED")
    assert running.board.said == said
    assert running.handle() is newer


def test_failed_task_has_its_trace_and_stays_failed_until_it_is_restarted(running: Stage) -> None:
    running.report(running.handle(), "FAILED", "the trace")
    assert running.board.said[-1] == (FIRST, State.FAILED, "the trace")
    running.tick(after_s=60)
    assert running.host.verbs == ["start STARTED"]
    running.supervisor.restart(FIRST)
    running.tick()
    assert running.host.verbs == ["start STARTED", "start STARTED"]
    assert State.RESTARTING in running.board.states()


def test_transient_error_of_a_running_task_is_shown_until_it_has_passed(running: Stage) -> None:
    for trace in (None, "in trouble", "in trouble", "in trouble for long", None, None):
        running.report(running.handle(), "RUNNING", trace)
    said = [trace for task, state, trace in running.board.said if (task, state) == (FIRST, State.RUNNING)]
    assert said[-4:] == [None, "in trouble", "in trouble for long", None]
    assert running.handle().state is HandleState.HOSTED


def test_a_preparation_that_fails_fails_the_task(stage: Stage) -> None:
    stage.preparation.error = ValueError("no such thing")
    stage.tasks(1)
    stage.tick()
    [(task, state, trace)] = stage.board.said
    assert (task, state) == (FIRST, State.FAILED)
    assert "no such thing" in (trace or "")


def test_stuck_task_is_running_with_its_stack_until_it_moves(running: Stage) -> None:
    running.report(running.handle(), "RUNNING", "in poll", hangs=1)
    running.report(running.handle(), "RUNNING")
    said = [(state, trace) for _, state, trace in running.board.said]
    assert said == [(State.RUNNING, None), (State.RUNNING, "in poll"), (State.RUNNING, None)]
    assert running.host.verbs == ["start STARTED"]


def test_task_with_a_stuck_start_is_unassigned_with_its_stack(stage: Stage) -> None:
    stage.tasks(1)
    stage.tick()
    stage.report(stage.handle(), "STARTING")
    stage.report(stage.handle(), "STARTING", "in start", hangs=1)
    stage.report(stage.handle(), "STARTING", "in start", hangs=1)
    assert stage.board.said == [(FIRST, State.UNASSIGNED, "in start")]


def test_stuck_task_fails_when_configured_and_its_neighbours_leave_the_slot(stage: Stage) -> None:
    stage.preparation.run = RunSpec(fails_when_it_hangs=True)
    stage.tasks(2)
    stage.tick()
    deaf, neighbour = stage.handle(FIRST), stage.handle(SECOND)
    stage.report(deaf, "RUNNING")
    stage.host.neighbours = (neighbour.incarnation,)
    stage.report(deaf, "RUNNING", "in commit")  # it waits for Kafka
    assert stage.board.said[-1] == (FIRST, State.RUNNING, "in commit")
    stage.report(deaf, "RUNNING", "in poll", hangs=1)
    assert stage.board.said[-1] == (FIRST, State.FAILED, "in poll")
    assert ("abandon", deaf.incarnation) in stage.host.told
    assert ("stop", neighbour.incarnation) in stage.host.told
    assert [spec.incarnation for spec in stage.locked_out] == [deaf.incarnation]
    stage.report(deaf, "RUNNING")  # it has come back to life
    assert stage.board.states()[-1] is State.FAILED
    stage.report(neighbour, "STOPPED")
    stage.tick()
    assert stage.handle(SECOND).incarnation != neighbour.incarnation


def test_stuck_task_is_restarted_when_automatic_restarts_are_enabled(stage: Stage) -> None:
    """Its next start fences it; were it locked out late, that would end the next one."""
    restarts = {"errors.restart.enabled": "true", "errors.restart.backoff.initial.ms": "1000"}
    stage.write(records.connector_config("c", {"name": "c", **restarts}))
    stage.preparation.run = RunSpec(fails_when_it_hangs=True)
    stage.tasks(1)
    stage.tick()
    deaf = stage.handle()
    stage.report(deaf, "RUNNING")
    stage.report(deaf, "RUNNING", "in poll", hangs=1)
    assert (stage.handle().state, stage.locked_out) == (HandleState.FAILED, [])
    stage.tick(after_s=2)
    stage.tick(after_s=2)
    assert stage.handle().incarnation != deaf.incarnation
    assert stage.host.verbs[-1] == "start STARTED"
    assert stage.locked_out == []


def test_abandoned_start_is_retried_and_not_reported_as_failed(stage: Stage) -> None:
    stage.preparation.error = AbandonedError("a newer generation")
    stage.tasks(1)
    stage.tick()
    assert stage.board.said == []
    stage.preparation.error = None
    stage.tick()
    assert stage.host.told == []
    stage.tick(after_s=1.1)
    assert stage.host.verbs == ["start STARTED"]


def test_start_without_admission_is_retried_only_while_the_task_is_assigned(running: Stage) -> None:
    running.report(running.handle(), "ABANDONED", "a newer start")
    assert State.FAILED not in running.board.states()
    running.assign([])
    running.tick(after_s=1.1)
    assert running.host.verbs == ["start STARTED"]
    assert running.supervisor.handle(FIRST) is None


def test_a_task_without_room_is_unassigned_with_the_reason_until_there_is_room(stage: Stage) -> None:
    stage.host.has_room = False
    stage.tasks(1)
    stage.tick()
    stage.tick(after_s=0.6)
    assert stage.board.said == [(FIRST, State.UNASSIGNED, "all cores are taken")]
    stage.host.has_room = True
    stage.tick(after_s=0.6)
    assert stage.host.verbs == ["start STARTED"]


def test_lost_task_starts_again_at_once_and_is_restarting_meanwhile(running: Stage) -> None:
    lost = running.handle()
    running.supervisor.lost([lost.incarnation], "the process of its slot was ended by SIGSEGV")
    running.tick()
    assert running.board.said[-1] == (FIRST, State.RESTARTING, "the process of its slot was ended by SIGSEGV")
    assert running.handle().incarnation != lost.incarnation
    assert running.host.verbs == ["start STARTED", "start STARTED"]


def test_task_runs_alone_and_then_fails_when_its_process_dies_repeatedly(running: Stage) -> None:
    for is_alone in (False, True):
        running.supervisor.crashed([running.handle().incarnation], "its slot ended: exited unexpectedly")
        running.tick()
        running.tick(after_s=1.1)
        assert [running.handle().state, running.host.specs[-1].run.is_alone] == [HandleState.HOSTED, is_alone]
    running.supervisor.crashed([running.handle().incarnation], "its slot ended: exited unexpectedly")
    running.tick()
    task, state, trace = running.board.said[-1]
    assert (task, state) == (FIRST, State.FAILED)
    assert "3 times in a row" in trace
    assert "exited unexpectedly" in trace
    running.tick(after_s=3600)
    assert running.handle().state is HandleState.FAILED
    running.supervisor.restart(FIRST)
    running.tick()
    assert [running.handle().state, running.host.specs[-1].run.is_alone] == [HandleState.HOSTED, False]


def _lose(stage: Stage, *incarnations: str, is_crash: bool = True, reason: str = "the host ended: exit code 3") -> None:
    """Report that the process below a slot is gone that ran the code of these starts, once by each."""
    numbers = {handle.incarnation: handle.id.task for handle in stage.hosted()}
    for each in incarnations:
        stage.supervisor.reported([TaskReport("c", numbers[each], each, RunState.LOST, reason)])
        if is_crash:
            stage.supervisor.crashed(incarnations, reason)
        else:
            stage.supervisor.lost([each], reason)
    stage.tick()


def test_task_restarts_instead_of_failing_when_its_host_is_gone(running: Stage) -> None:
    before = running.handle()
    _lose(running, before.incarnation)
    assert running.board.said[-1] == (FIRST, State.RESTARTING, "the host ended: exit code 3")
    assert running.handle().incarnation != before.incarnation
    assert running.handle().state is HandleState.HOSTED


def test_suspects_of_repeated_host_crashes_run_alone_until_the_culprit_fails(
    stage: Stage,
) -> None:
    stage.tasks(2)
    stage.tick()
    for _ in range(2):
        _lose(stage, *(handle.incarnation for handle in stage.hosted()))
        stage.tick(after_s=1.1)
    assert [spec.run.is_alone for spec in stage.host.specs[-2:]] == [True, True]
    culprit, innocent = stage.hosted()
    _lose(stage, culprit.incarnation)
    assert (culprit.state, innocent.state) == (HandleState.FAILED, HandleState.HOSTED)
    assert "the host ended: exit code 3" in (stage.board.said[-1][2] or "")


def test_task_is_no_suspect_when_its_host_was_killed_because_of_a_neighbour(running: Stage) -> None:
    for _ in range(4):
        _lose(running, running.handle().incarnation, is_crash=False)
        assert running.handle().state is HandleState.HOSTED
    assert not running.host.specs[-1].run.is_alone


def test_suspects_run_one_after_the_other_when_there_are_no_cores_for_own_slots(stage: Stage) -> None:
    """Two of them in one slot are two suspects each time it dies: nobody would ever be the culprit."""
    stage.host.has_cores = False
    stage.tasks(3)
    stage.tick()
    for _ in range(2):
        stage.supervisor.crashed([handle.incarnation for handle in stage.hosted()], "its slot ended")
        stage.tick()
        stage.tick(after_s=1.1)
    assert stage.hosted() == []
    seen = []
    for _ in range(3):
        stage.tick(after_s=TRIAL_S + 1)
        stage.tick(after_s=1)  # room is asked for again and again
        seen.append([handle.id.task for handle in stage.hosted()])
    assert seen == [[0], [0, 1], [0, 1, 2]]
    last = stage.handle(TaskId("c", 2))
    stage.supervisor.crashed([handle.incarnation for handle in stage.hosted()], "its slot ended")
    stage.tick()
    assert last.state is HandleState.FAILED, "the others had got through their minute"
    assert [handle.id.task for handle in stage.hosted()] == [0, 1]


def test_task_lost_while_it_stops_counts_as_stopped(running: Stage) -> None:
    older = running.handle()
    running.tasks(1)
    running.tick()
    running.supervisor.lost([older.incarnation], "its slot ended")
    running.tick()
    assert running.host.verbs == ["start STARTED", "stop", "start STARTED"]


def test_pause_and_resume_are_passed_on_once(running: Stage) -> None:
    running.target(TargetState.PAUSED)
    running.tick()
    running.tick()
    running.report(running.handle(), "PAUSED")
    running.target(TargetState.STARTED)
    running.tick()
    assert running.host.verbs == ["start STARTED", "pause", "resume"]
    assert running.board.states() == [State.RUNNING, State.PAUSED]


def test_a_task_that_was_paused_while_it_waited_for_room_is_started_paused(stage: Stage) -> None:
    stage.host.has_room = False
    stage.tasks(1)
    stage.tick()
    stage.target(TargetState.PAUSED)
    stage.host.has_room = True
    stage.tick(after_s=0.6)
    assert stage.host.verbs == ["start PAUSED"]


def test_shutdown_stops_every_task_and_reports_it_unassigned(running: Stage) -> None:
    handle = running.handle()
    running.begin_shutdown()
    running.tick()
    assert running.host.told[-1] == ("stop", handle.incarnation)
    assert not running.loop.is_over
    running.report(handle, "STOPPED")
    assert running.loop.is_over
    assert running.board.states()[-1] is State.UNASSIGNED


def test_a_shutdown_does_not_wait_longer_than_the_grace(running: Stage) -> None:
    running.begin_shutdown()
    running.tick()
    running.tick(after_s=5.1)
    running.tick()
    assert "abandon" in running.host.verbs
    assert running.loop.is_over


def test_a_deleted_connector_s_tasks_stop_and_are_not_called_unassigned(running: Stage) -> None:
    handle = running.handle()
    running.write(records.connector_removed("c"), records.target_state_removed("c"))
    running.tick()
    running.report(handle, "STOPPED")
    assert running.host.verbs == ["start STARTED", "stop"]
    assert running.board.states() == [State.RUNNING]


@pytest.mark.parametrize("end", ["deaf", "lost", "lost, says its host, and then stopped"])
@pytest.mark.parametrize("fate", ["deleted", "stopped", "reconfigured"])
def test_transaction_left_open_is_aborted_when_the_task_has_no_successor(running: Stage, fate: str, end: str) -> None:
    """Every reader of the offsets topic would wait for the transaction's time-out."""
    handle = running.handle()
    if fate == "deleted":
        running.write(records.connector_removed("c"))
    elif fate == "stopped":
        running.target(TargetState.STOPPED)
    else:
        running.tasks(1)
    running.tick()
    if end != "deaf":
        running.supervisor.lost([handle.incarnation], "its slot ended")
    if end.endswith("stopped"):
        running.report(handle, "STOPPED")
    running.tick(after_s=6)
    assert [spec.incarnation for spec in running.locked_out] == ([] if fate == "reconfigured" else [handle.incarnation])


def test_cut_off_worker_stops_its_tasks_and_reports_nothing_until_it_is_back(running: Stage) -> None:
    handle = running.handle()
    running.supervisor.cut_off(True)
    running.tick()
    assert running.host.told[-1] == ("stop", handle.incarnation)
    running.report(handle, "STOPPED")
    running.tick(after_s=60)
    assert running.supervisor.handle(FIRST) is None
    assert running.board.states() == [State.RUNNING]
    running.supervisor.cut_off(False)
    running.tick()
    assert running.host.verbs == ["start STARTED", "stop", "start STARTED"]


def test_late_end_of_a_task_does_not_hide_the_status_from_its_next_owner(running: Stage) -> None:
    """This worker was away, another got the task, and this one is a member again before its start has ended."""
    older = running.handle()
    running.supervisor.cut_off(True)
    running.share({"other": [FIRST], "me": []}, generation=2)
    running.supervisor.cut_off(False)
    running.share({"other": [FIRST], "me": []}, generation=3)
    running.tick()
    running.report(older, "STOPPED")
    assert running.board.states()[-1] is State.UNASSIGNED
    assert running.board.said_in[-1] == 1


def test_reassigned_task_waits_until_the_previous_worker_has_stopped_it(stage: Stage) -> None:
    stage.tasks(1)
    stage.share({"other": [FIRST], "me": []})
    stage.tick()
    stage.share({"other": [], "me": [FIRST]})
    stage.tick()
    assert stage.host.told == []
    stage.departures.ended("other", [(FIRST, stage.config.snapshot.commit_offsets["c"])])
    stage.tick()
    assert stage.host.verbs == ["start STARTED"]


def test_revoked_task_is_reported_stopped_once_it_has_ended(running: Stage) -> None:
    handle = running.handle()
    running.share({"other": [FIRST], "me": []})
    running.tick()
    assert running.told_stopped == []
    running.report(handle, "STOPPED")
    running.tick()
    assert running.told_stopped == [(FIRST, handle.generation)]


def test_new_task_configs_stop_own_tasks_at_once_and_wait_for_other_workers(running: Stage) -> None:
    older = running.handle()
    running.tasks(2)
    running.share({"other": [SECOND], "me": [FIRST]})
    running.tick()
    running.report(older, "STOPPED")
    middle = running.handle()
    assert running.told_stopped == [(FIRST, older.generation)]
    running.tasks(2)
    running.share({"other": [SECOND], "me": [FIRST]})
    running.tick()
    running.report(middle, "STOPPED")
    assert running.host.verbs == ["start STARTED", "stop", "start STARTED", "stop"]
    running.tick(after_s=6)
    assert running.host.verbs[4:] == ["start STARTED"], "the grace is over"


def test_illegal_state_transitions_raise() -> None:
    handle = TaskHandle(StartIdentity(FIRST, 0, "i"), "STARTED")
    with pytest.raises(RuntimeError, match="cannot go from preparing to hosted"):
        handle.move(HandleState.HOSTED)


def test_slow_starts_of_one_connector_do_not_delay_other_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    go, begun = threading.Event(), set()

    class Hanging:
        def prepare(self, handle: TaskHandle) -> TaskSpec:
            begun.add(handle.id)
            if handle.id.connector == "c":
                go.wait(60)  # its target cluster is away
            raise AbandonedError("enough")

    stage, settings = Stage(monkeypatch), WorkerSettings(WorkerConfig(WORKER), "http://w:1", "me")
    monkeypatch.undo()  # the time is its own
    supervisor = TaskSupervisor(
        settings,
        Hanging(),
        stage,
        Board(),
        TaskTotals(),
        Departures(0.0),
        stage,
        stage,  # type: ignore[arg-type]
    )
    config, tasks = MemoryTopic(), [*(TaskId("c", n) for n in range(64)), TaskId("d", 0)]
    for name, count in (("c", 64), ("d", 1)):
        configs = [records.task_config(TaskId(name, n), {}) for n in range(count)]
        config.write(records.connector_config(name, {}), *configs, records.tasks_commit(name, count))
    config.builder.assigned.put(Assignment(1, (WorkerAssignment("me", "http://w:1", ("c", "d"), tuple(tasks)),)))
    supervisor.start()
    try:
        supervisor.changed(config.snapshot)
        eventually(lambda: TaskId("d", 0) in begun, within_s=60)
    finally:
        go.set()
        supervisor.shut_down(1.0)


@pytest.fixture
def reviving(stage: Stage) -> Stage:
    """A task that runs, of a connector that is restarted by itself, twice in a row at most, after 1 s and 2 s."""
    restart = {"enabled": "true", "attempts": "2", "window.ms": "60000"}
    config = {"name": "c", **{f"errors.restart.{key}": value for key, value in restart.items()}}
    stage.write(records.connector_config("c", config))
    stage.tasks(1)
    stage.tick()
    stage.report(stage.handle(), "RUNNING")
    return stage


def fail(stage: Stage, after_s: float = 0.0) -> None:
    stage.now += after_s
    stage.report(stage.handle(), "FAILED", "broken")


def test_failed_task_is_restarted_with_growing_delay_up_to_the_limit(reviving: Stage) -> None:
    for made, in_s in ((0, 1.0), (1, 2.0)):
        fail(reviving)
        assert reviving.board.plans[-1] == RestartSchedule(made, in_s)
        reviving.tick(after_s=in_s - 0.01)
        assert reviving.handle().state is HandleState.FAILED
        reviving.tick(after_s=0.01)
        assert reviving.handle().state is HandleState.HOSTED
        assert reviving.board.states()[-1] is State.RESTARTING
    fail(reviving)
    assert reviving.board.plans[-1] == RestartSchedule(2, None)
    reviving.tick(after_s=100_000)
    assert reviving.handle().state is HandleState.FAILED
    assert reviving.totals.startups["restarts"] == 2


def test_restart_count_is_reset_when_the_task_has_run_for_the_window(reviving: Stage) -> None:
    fail(reviving)
    reviving.tick(after_s=1)
    fail(reviving, after_s=59.9)
    assert reviving.board.plans[-1] == RestartSchedule(1, 2.0)
    reviving.tick(after_s=2)
    fail(reviving, after_s=60)
    assert reviving.board.plans[-1] == RestartSchedule(0, 1.0)


def test_restart_count_is_reset_when_a_user_restarts_the_task(reviving: Stage) -> None:
    fail(reviving)
    reviving.tick(after_s=1)
    reviving.supervisor.restart(FIRST)
    reviving.tick()
    reviving.report(reviving.first_stopping(), "STOPPED")
    fail(reviving)
    assert reviving.board.plans[-1] == RestartSchedule(0, 1.0)


def test_pause_cancels_an_automatic_restart_and_resume_resets_the_count(reviving: Stage) -> None:
    fail(reviving)
    reviving.tick(after_s=1)
    fail(reviving)
    reviving.target(TargetState.PAUSED)
    reviving.tick()
    assert reviving.board.plans[-1] is None
    reviving.tick(after_s=1000)
    assert reviving.handle().state is HandleState.FAILED
    reviving.target(TargetState.STARTED)
    reviving.tick()
    assert reviving.board.plans[-1] == RestartSchedule(0, 1.0)
    reviving.tick(after_s=1)
    assert reviving.handle().state is HandleState.HOSTED


@pytest.mark.parametrize("away", ["stopped", "another's"])
def test_failed_task_is_not_restarted_when_stopped_or_assigned_elsewhere(reviving: Stage, away: str) -> None:
    fail(reviving)
    reviving.target(TargetState.STOPPED) if away == "stopped" else reviving.share({"other": [FIRST]})
    reviving.tick()
    started = reviving.host.verbs.count("start STARTED")
    reviving.tick(after_s=1000)
    assert reviving.host.verbs.count("start STARTED") == started


def test_restart_count_is_reset_by_new_task_configs(reviving: Stage) -> None:
    fail(reviving)
    reviving.tick(after_s=1)
    reviving.tasks(1)
    reviving.tick()
    reviving.report(reviving.first_stopping(), "STOPPED")
    fail(reviving)
    assert reviving.board.plans[-1] == RestartSchedule(0, 1.0)


def test_failed_task_is_not_restarted_unless_automatic_restarts_are_enabled(running: Stage) -> None:
    fail(running)
    assert running.board.plans == [None]
    running.tick(after_s=100_000)
    running.target(TargetState.PAUSED)
    running.tick()
    assert running.handle().state is HandleState.FAILED
    assert running.board.states() == [State.RUNNING, State.FAILED]


@pytest.mark.parametrize("error", no_exceptions(), ids=repr)
@pytest.mark.parametrize("where", ["preparation", "host"])
def test_base_exception_in_preparation_or_config_fails_only_that_task(
    stage: Stage, error: BaseException, where: str
) -> None:
    """An author's config makes a task of a DataFrame connector, and tells where offsets are kept."""
    getattr(stage, where).error = error
    stage.tasks(1)
    stage.tick()
    [(task, state, trace)] = stage.board.said
    assert (task, state) == (FIRST, State.FAILED)
    assert type(error).__name__ in (trace or "")


@pytest.mark.parametrize("error", no_exceptions(), ids=repr)
def test_event_loop_of_the_supervisor_survives_a_base_exception(error: BaseException) -> None:
    went_on = threading.Event()

    def fails() -> None:
        raise error

    loop = EventLoop(lambda: None)
    loop.put(fails)
    loop.put(went_on.set)
    loop.start()
    assert went_on.wait(60)
    loop.end()
    loop.wait(60)


@pytest.mark.parametrize("is_stopping", [False, True])
def test_failed_task_is_logged_as_an_error_with_connector_task_and_trace(
    running: Stage, caplog: pytest.LogCaptureFixture, is_stopping: bool
) -> None:
    """What its slot prints is in the log of an executor, on another machine perhaps."""
    handle = running.handle()
    if is_stopping:
        running.supervisor.restart(FIRST)
        running.tick()
    running.report(handle, "FAILED", "Traceback\nValueError: no such table")
    [error] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert error.startswith("connector c, task 0: failed")
    assert "no such table" in error


@pytest.fixture
def expiring(stage: Stage) -> Stage:
    """A stage with a task that runs, and whose values are valid for ten seconds."""
    stage.preparation.ttl_ms = 10_000
    stage.tasks(1)
    stage.tick()
    stage.report(stage.handle(), "RUNNING")
    return stage


def test_a_task_is_restarted_once_when_its_values_have_expired(expiring: Stage) -> None:
    older = expiring.handle()
    expiring.preparation.ttl_ms = None
    expiring.tick(after_s=9)
    assert expiring.host.verbs == ["start STARTED"]
    expiring.tick(after_s=1)
    expiring.report(older, "STOPPED")
    expiring.report(expiring.handle(), "RUNNING")
    for _ in range(3):
        expiring.tick(after_s=100)
    assert expiring.host.verbs == ["start STARTED", "stop", "start STARTED"]


def test_task_with_expired_values_is_not_restarted_before_it_runs(stage: Stage) -> None:
    stage.preparation.ttl_ms = 1_000
    stage.tasks(1)
    stage.tick()
    stage.tick(after_s=100)
    assert stage.host.verbs == ["start STARTED"]
    stage.report(stage.handle(), "RUNNING")
    assert stage.host.verbs == ["start STARTED", "stop"]


def test_a_task_goes_on_with_expired_values_while_their_store_is_away(expiring: Stage) -> None:
    expiring.preparation.away = "closed today"
    for _ in range(3):
        expiring.tick(after_s=20)
    assert expiring.host.verbs == ["start STARTED"]
    expiring.preparation.away = ""
    expiring.tick(after_s=20)
    assert expiring.host.verbs == ["start STARTED", "stop"]


def test_task_keeps_expired_values_when_config_action_reload_is_none(stage: Stage) -> None:
    stage.preparation.ttl_ms, stage.preparation.config = 1_000, {"config.action.reload": "none"}
    stage.tasks(1)
    stage.tick()
    stage.report(stage.handle(), "RUNNING")
    stage.tick(after_s=100)
    assert stage.host.verbs == ["start STARTED"]


def test_start_is_retried_and_reported_once_while_its_secret_store_is_away(stage: Stage) -> None:
    stage.preparation.error = AwayError("closed today")
    stage.tasks(1)
    stage.tick()
    for _ in range(3):
        stage.tick(after_s=2)
    assert stage.board.said == [(FIRST, State.UNASSIGNED, "closed today")]
    stage.preparation.error = None
    stage.tick(after_s=2)
    assert stage.host.verbs == ["start STARTED"]
