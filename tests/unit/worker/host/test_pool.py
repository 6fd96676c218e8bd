"""Slots: who gets which task, and what becomes of tasks whose slot goes."""

import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.spark.slot.cores import CoreLedger, CoreUse
from fencepost.spark.slot.job import ProcessEnds, SlotCrashedError, SlotEndedError
from fencepost.task.channel.message import STANDS_STILL, LostTask, Reports, RunState, TaskReport
from fencepost.task.channel.task_spec import LookUpSpec, OutputSpec, References, RunSpec, TaskSpec
from fencepost.task.slot.worker_line import SlotSpec
from fencepost.telemetry.loggers import Loggers
from fencepost.worker.channel import RefusedError
from fencepost.worker.host.slot import SlotPool
from fencepost.worker.supervision.port import NoRoomError
from fencepost.worker.supervision.task.suspicion import TRIAL_S


class Jobs:
    """What Spark would run."""

    def __init__(self) -> None:
        self.launched: list[str] = []
        self.cancelled: list[str] = []

    def launch(self, slot_id: str, spec_json: str) -> None:
        self.launched.append(slot_id)

    def cancel(self, slot_id: str) -> None:
        self.cancelled.append(slot_id)


class Events:
    def __init__(self) -> None:
        self.lost_starts: list[str] = []
        self.reasons: list[str] = []
        self.crashed_starts: list[str] = []
        self.reports: list[TaskReport] = []

    def reported(self, reports: Sequence[TaskReport]) -> None:
        self.reports.extend(reports)

    def lost(self, incarnations: Sequence[str], reason: str) -> None:
        self.lost_starts.extend(incarnations)
        self.reasons.append(reason)

    def crashed(self, incarnations: Sequence[str], reason: str) -> None:
        self.crashed_starts.extend(incarnations)
        self.reasons.append(reason)

    def room_changed(self) -> None: ...


class Pool:
    """A pool, its surroundings, and the slots' side of the channel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cores: int = 8, max_slots: int = 4) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr("fencepost.worker.host.slot._POLL_S", 0.01)
        self.jobs, self.events, self.ledger = Jobs(), Events(), CoreLedger(cores)
        self.ends = ProcessEnds()
        self.loggers = Loggers()
        spec = SlotSpec("", "http://w", 10)
        self.slots = SlotPool(self.events, self.ledger, self.ends, spec, max_slots, self.loggers)
        self.slots.attach(self.jobs)

    def start(self, incarnation: str, *, is_dedicated: bool = False) -> str:
        """Start a task; the slot that got it."""
        run = RunSpec(is_dedicated=is_dedicated)
        spec = TaskSpec("c", 0, 1, incarnation, {}, {}, output=OutputSpec({}, "o"), run=run)
        self.slots.start(spec)
        return str(self.slot_of(incarnation).id)

    def slot_of(self, incarnation: str) -> Any:
        slot = self.slots._table.of(incarnation)
        assert slot is not None
        return slot

    def register(self, slot: str, attempt: str = "0-a") -> None:
        self.slots.channel.register({"slot": slot, "attempt": attempt, "pid": 1})

    def directives(self, slot: str, attempt: str = "0-a", ack: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.slots.channel.directives({"slot": slot, "attempt": attempt, "ack": ack})[
            "directives"
        ]
        return found

    def report(self, slot: str, incarnation: str, state: str, polled: float = 0, attempt: str = "0-a") -> None:
        report = TaskReport("c", 0, incarnation, RunState(state), None, {"records_polled": polled})
        self.slots.channel.report({"slot": slot, "attempt": attempt, "reports": [report.to_json()]})

    def is_idle(self, slot: str, *incarnations: str) -> None:
        """Time passes in which these tasks do nothing."""
        for _ in range(2):
            self.now += 5
            for incarnation in incarnations:
                self.report(slot, incarnation, "RUNNING")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    return Pool(monkeypatch)


def test_slot_is_requested_from_spark_when_load_needs_one(pool: Pool) -> None:
    slot = pool.start("a")
    assert pool.jobs.launched == [slot]
    assert pool.ledger.taken(CoreUse.SLOT) == 1


def test_a_task_is_handed_over_once_its_slot_has_registered(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    [directive] = pool.directives(slot)
    assert (directive["verb"], directive["spec"]["incarnation"]) == ("start", "a")
    assert pool.directives(slot, ack=directive["seq"]) == []


def test_e11_task_is_handed_over_with_references_and_without_their_values(pool: Pool) -> None:
    later = References({"config.providers": "env"}, {"password": "${env:P}"}, {"dsn": "x ${env:P}"}, values=("canary",))
    clients = OutputSpec({"sasl.password": "canary"}, "o", admin_conf={"sasl.password": "canary"})
    pool.slots.start(
        TaskSpec("c", 0, 1, "a", {"password": "canary"}, {"dsn": "x canary"}, clients, look_up=LookUpSpec((), later))
    )
    slot = str(pool.slot_of("a").id)
    pool.register(slot)
    [directive] = pool.directives(slot)
    assert directive["spec"]["connector_config"] == {"password": "${env:P}"}
    assert directive["spec"]["task_config"] == {"dsn": "x ${env:P}"}
    assert "canary" not in str(directive)


def test_levels_of_loggers_reach_running_slots_and_later_ones(pool: Pool) -> None:
    first = pool.start("a")
    pool.register(first)
    pool.loggers.set_level("test.pool", "DEBUG", 1)
    assert [each["levels"] for each in pool.directives(first)] == [{}, {"test.pool": "DEBUG"}]
    second = pool.start("b", is_dedicated=True)
    assert second != first
    pool.register(second)
    assert [(each["verb"], each["levels"]) for each in pool.directives(second)] == [
        ("levels", {"test.pool": "DEBUG"}),
        ("start", {}),
    ]


def test_unacknowledged_directive_is_repeated(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    assert pool.directives(slot) == pool.directives(slot)


def test_idle_tasks_share_a_slot(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    pool.is_idle(slot, "a")
    for number in range(5):
        assert pool.start(f"b{number}") == slot
        pool.is_idle(slot, f"b{number}")


def test_busy_tasks_are_spread_over_at_most_the_configured_number_of_slots(pool: Pool) -> None:
    used = [pool.start(f"t{n}") for n in range(8)]
    assert len(set(used)) == 4
    assert all(used.count(slot) == 2 for slot in used)


def test_a_busy_slot_gets_no_further_task(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    pool.report(slot, "a", "RUNNING", polled=1)
    pool.now += 5
    pool.report(slot, "a", "RUNNING", polled=100_000)
    assert pool.start("b") != slot


def test_a_connector_may_have_a_slot_of_its_own(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    pool.is_idle(slot, "a")
    own = pool.start("b", is_dedicated=True)
    assert own != slot
    assert pool.start("c") == slot


def test_pool_has_no_room_without_spark_or_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    crowded = Pool(monkeypatch, cores=0)
    with pytest.raises(NoRoomError, match=r"spark\.master"):
        crowded.slots.start(TaskSpec("c", 0, 1, "a", {}, {}, output=OutputSpec({}, "o")))
    crowded.slots.attach("Spark has gone")
    with pytest.raises(NoRoomError, match="Spark has gone"):
        crowded.slots.start(TaskSpec("c", 0, 1, "a", {}, {}, output=OutputSpec({}, "o")))


def test_slots_are_shared_when_cores_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Pool(monkeypatch, cores=1)
    assert small.start("a") == small.start("b")


def test_slot_that_spark_reran_loses_its_tasks_and_its_older_attempt_must_leave(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot, "0-a")
    pool.register(slot, "1-b")
    assert pool.events.crashed_starts == ["a"]
    with pytest.raises(RefusedError, match="successor"):
        pool.directives(slot, "0-a")
    with pytest.raises(RefusedError):
        pool.report(slot, "a", "RUNNING", attempt="0-a")
    assert pool.directives(slot, "1-b") == []


def test_an_older_attempt_that_registers_late_is_refused(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot, "10-b")
    with pytest.raises(RefusedError):
        pool.register(slot, "9-a")
    assert pool.events.lost_starts == []
    assert pool.directives(slot, "10-b")


def test_registration_can_be_repeated_when_its_answer_was_lost(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    pool.register(slot)
    assert pool.events.lost_starts == []
    assert len(pool.directives(slot)) == 1


def _join_cancelling() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("cancel-"):
            thread.join(60)


def test_a_silent_slot_is_given_up_with_its_tasks(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    pool.now += 11
    pool.slots.check_leases()
    assert pool.events.lost_starts == []
    pool.now += 2
    pool.slots.check_leases()
    assert pool.events.lost_starts == ["a"]
    _join_cancelling()
    assert pool.jobs.cancelled == [slot]
    assert pool.ledger.taken(CoreUse.SLOT) == 0
    with pytest.raises(RefusedError):
        pool.directives(slot)


def stand_still(pool: Pool, slot: str, incarnation: str) -> None:
    pool.slots.channel.stacks({"slot": slot, "attempt": "0-a", "stacks": {incarnation: "  in search"}})


def test_stack_of_a_stuck_task_is_shown_until_its_slot_is_heard_from(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    pool.report(slot, "a", "RUNNING")
    stand_still(pool, slot, "a")
    trace = str(pool.events.reports[-1].trace)
    assert re.match(r"All threads of the task's process have stood still since 2\d{3}-.*Z: ", trace)
    assert "(change that call; after slot.lease.ms, tasks go on in another process)" in trace
    assert "in search" in trace
    assert pool.events.reports[-1].counters[STANDS_STILL] == 1
    pool.directives(slot)
    assert pool.events.reports[-1].trace is None
    assert STANDS_STILL not in pool.events.reports[-1].counters
    told = len(pool.events.reports)
    pool.directives(slot)
    assert len(pool.events.reports) == told


@pytest.mark.parametrize("stands_still", [True, False])
def test_silence_of_a_slot_counts_as_a_crash_only_if_a_task_has_caused_it(pool: Pool, stands_still: bool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    pool.report(slot, "a", "RUNNING")
    if stands_still:
        stand_still(pool, slot, "a")
    pool.now += 13
    pool.slots.check_leases()
    _join_cancelling()
    assert (pool.events.crashed_starts, pool.events.lost_starts) == ((["a"], []) if stands_still else ([], ["a"]))
    assert ("in search" in pool.events.reasons[0]) is stands_still


def test_slot_frees_its_core_once_when_its_job_ends(pool: Pool) -> None:
    slot = pool.start("a")
    pool.slots.job_ended(slot, RuntimeError("killed"))
    pool.slots.job_ended(slot, None)
    assert pool.events.lost_starts == ["a"]
    assert pool.ledger.taken(CoreUse.SLOT) == 0
    assert pool.start("b") != slot


def test_end_of_a_slot_by_a_signal_is_counted_and_named_to_its_tasks(pool: Pool) -> None:
    error = RuntimeError("Python worker exited unexpectedly (crashed): Fatal Python error: Segmentation fault")
    pool.slots.job_ended(pool.start("a"), error)
    pool.slots.job_ended(pool.start("b"), RuntimeError("ValueError: no such table"))
    pool.slots.job_ended(pool.start("c"), None)
    assert pool.ends.counts() == {"SIGSEGV": 1}
    assert pool.events.reasons[0] == "the process of its slot was ended by SIGSEGV"
    assert "no such table" in pool.events.reasons[1]
    assert "it left" in pool.events.reasons[2]


def test_slot_with_an_abandoned_task_takes_no_tasks_and_is_cancelled_once_empty(
    pool: Pool,
) -> None:
    slot = pool.start("deaf")
    pool.register(slot)
    pool.is_idle(slot, "deaf")
    assert pool.start("neighbour") == slot
    assert list(pool.slots.abandon("deaf")) == ["neighbour"]
    assert pool.directives(slot)[-1]["verb"] == "abandon"
    assert pool.start("new") != slot
    assert pool.jobs.cancelled == []
    pool.report(slot, "neighbour", "STOPPED")
    _join_cancelling()
    assert pool.jobs.cancelled == [slot]


def test_silent_slot_is_given_up_while_sparks_jvm_hangs(pool: Pool) -> None:
    slot, moves_on, waited = pool.start("a"), threading.Event(), []
    pool.register(slot)
    pool.jobs.cancel = lambda slot_id: waited.append(moves_on.wait(60))  # type: ignore[method-assign]
    pool.now += 13
    pool.slots.check_leases()
    moves_on.set()
    assert pool.events.lost_starts == ["a"]
    _join_cancelling()
    assert waited == [True], "the pool waited for the JVM"


def test_reports_of_starts_unknown_to_the_pool_are_dropped(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    pool.report(slot, "unknown", "RUNNING")
    assert pool.events.reports == []


def test_tasks_are_lost_or_crashed_together_when_their_host_is_gone(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    for known in ("a", "ab", "abc"):
        pool.is_idle(slot, *known)
        assert pool.start("abcd"[len(known)]) == slot

    def lose(incarnation: str, *together: str) -> None:
        report = TaskReport("c", 0, incarnation, RunState.LOST, f"the host of {incarnation} ended")
        pool.slots.channel.report(Reports(slot, "0-a", (), (LostTask(report, together),)).to_json())

    lose("a", "a", "b")
    stops = [each["incarnation"] for each in pool.directives(slot) if each["verb"] == "stop"]
    assert stops == ["b"]  # it may be idle, and not have noticed
    assert (pool.events.crashed_starts, pool.events.lost_starts) == (["a", "b"], [])
    lose("c")
    lose("unknown", "d")
    assert (pool.events.crashed_starts, pool.events.lost_starts) == (["a", "b"], ["c"])
    assert pool.events.reasons == ["the host of a ended", "the host of c ended"]
    assert [report.state for report in pool.events.reports[-2:]] == [RunState.LOST, RunState.LOST]
    assert sorted(pool.slot_of("d").tasks) == ["b", "d"]  # b reports for itself


def test_a_task_that_ended_leaves_its_slot(pool: Pool) -> None:
    slot = pool.start("a")
    pool.register(slot)
    pool.report(slot, "a", "FAILED")
    pool.slots.job_ended(slot, None)
    assert pool.events.lost_starts == []


def test_slot_on_a_leaving_executor_is_asked_to_leave_when_another_is_there(pool: Pool) -> None:
    leaving = pool.start("a")
    pool.register(leaving)
    for for_s in (0.0, 0.2):
        pool.slots.executor_leaves(leaving, for_s)
    [_, successor] = pool.jobs.launched
    assert [directive["verb"] for directive in pool.directives(leaving)] == ["start"]
    pool.register(successor)
    for for_s in (0.4, 0.6):
        pool.slots.executor_leaves(leaving, for_s)
    assert [directive["verb"] for directive in pool.directives(leaving)] == ["start", "leave"]
    pool.report(leaving, "a", "STOPPED")
    assert pool.start("b") == successor
    pool.slots.job_ended(leaving, None)
    assert (pool.events.lost_starts, pool.events.crashed_starts) == ([], [])
    assert pool.jobs.launched == [leaving, successor]


def test_slot_on_a_leaving_executor_leaves_although_its_successor_is_late(pool: Pool) -> None:
    leaving = pool.start("a")
    pool.register(leaving)
    pool.slots.executor_leaves(leaving, 0.0)
    pool.slots.executor_leaves(leaving, 5.1)
    assert [directive["verb"] for directive in pool.directives(leaving)] == ["start", "leave"]


def test_dedicated_slot_on_a_leaving_executor_is_replaced_by_one_of_its_own(pool: Pool) -> None:
    shared, leaving = pool.start("b"), pool.start("a", is_dedicated=True)
    for slot in (shared, leaving):
        pool.register(slot)
    pool.slots.executor_leaves(leaving, 0.0)
    pool.slots.executor_leaves("unknown", 0.0)
    [*_, successor] = pool.jobs.launched
    pool.report(leaving, "a", "STOPPED")
    assert pool.start("c", is_dedicated=True) == successor


def test_an_unknown_slot_is_refused(pool: Pool) -> None:
    with pytest.raises(RefusedError, match="no longer needed"):
        pool.register("nobody")


@pytest.mark.parametrize(("is_full", "cores", "expected"), [(False, 8, 1), (True, 8, 4), (True, 2, 2)])
def test_pool_is_ready_once_all_slots_started_in_advance_have_registered(
    monkeypatch: pytest.MonkeyPatch, is_full: bool, cores: int, expected: int
) -> None:
    pool = Pool(monkeypatch, cores=cores)
    assert not pool.slots.wait_until_there(0)
    pool.slots.prepare(is_full=is_full)
    assert len(pool.jobs.launched) == expected
    for slot in list(pool.jobs.launched):
        assert not pool.slots.wait_until_there(0)
        pool.register(slot)
    assert pool.slots.wait_until_there(0)
    pool.slots.prepare(is_full=is_full)
    assert len(pool.jobs.launched) == expected


def test_tasks_count_as_crashed_if_their_process_died_and_lost_if_it_was_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = Pool(monkeypatch)
    slot = pool.start("a")
    pool.register(slot)
    pool.slots.job_ended(slot, SlotCrashedError("Python worker exited unexpectedly (crashed)"))
    pool.slots.job_ended(pool.start("b"), SlotEndedError("Job was cancelled"))
    assert (pool.events.crashed_starts, pool.events.lost_starts) == (["a"], ["b"])


def test_no_task_is_suspected_when_a_process_dies_before_it_has_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor whose machine goes while the slot is on its way there."""
    pool = Pool(monkeypatch)
    pool.slots.job_ended(pool.start("a"), SlotCrashedError("ExecutorLostFailure (executor 3 exited)"))
    assert (pool.events.crashed_starts, pool.events.lost_starts) == ([], ["a"])


def test_suspect_that_runs_alone_has_its_own_slot_until_its_trial_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(monkeypatch, max_slots=1)
    shared = pool.start("a")
    pool.slots.start(TaskSpec("suspect", 0, 1, "s", {}, {}, run=RunSpec(is_alone=True), output=OutputSpec({}, "o")))
    own = pool.slot_of("s")
    assert own.id != shared
    assert pool.start("b") == shared
    pool.now += TRIAL_S + 1
    pool.slots.check_leases()
    assert own.owner is None


def test_trial_of_a_suspect_ends_with_its_first_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(monkeypatch, max_slots=1)
    pool.slots.start(TaskSpec("suspect", 0, 1, "s", {}, {}, run=RunSpec(is_alone=True), output=OutputSpec({}, "o")))
    own = pool.slot_of("s")
    pool.register(own.id)
    for commits, owner in ((0.0, own.owner), (1.0, None)):
        report = TaskReport("suspect", 0, "s", RunState.RUNNING, None, {"commits": commits})
        pool.slots.channel.report({"slot": own.id, "attempt": "0-a", "reports": [report.to_json()]})
        assert own.owner == owner
    assert pool.start("b") == own.id
