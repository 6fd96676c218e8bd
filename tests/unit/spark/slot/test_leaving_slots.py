"""Which slots are on executors that are to be taken away."""

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.spark.session import SparkError
from fencepost.spark.slot import job
from fencepost.spark.slot.job import SlotJobs
from fencepost.spark.slot.running_jobs import LeavingExecutors


class Context:
    """What Spark's driver says: each job group is one job, whose task runs on an executor."""

    def __init__(self, executors: Mapping[str, str]) -> None:
        self.executors = dict(executors)
        self.leaving: set[str] = set()
        self.questions = 0
        pending = SimpleNamespace(size=lambda: len(self.leaving))
        scheduler = SimpleNamespace(
            executorsPendingDecommission=lambda: pending, getExecutorDecommissionState=self._state_of
        )
        store = SimpleNamespace(lastStageAttempt=_stage, taskList=self._tasks)
        java = SimpleNamespace(taskScheduler=lambda: scheduler, statusStore=lambda: store)
        self._jsc = SimpleNamespace(sc=lambda: java)
        tracker = SimpleNamespace(
            getJobIdsForGroup=lambda group: [n for n, each in enumerate(self.executors) if each == group],
            getJobInfo=lambda number: SimpleNamespace(stageIds=[[*self.executors][number]]),
            getStageInfo=_stage,
        )
        self.statusTracker = lambda: tracker

    def _state_of(self, executor: str) -> Any:
        self.questions += 1
        return SimpleNamespace(isDefined=lambda: executor in self.leaving)

    def _tasks(self, group: str, attempt: int, most: int) -> Any:
        states = ("FAILED", "0"), ("RUNNING", self.executors[group])  # Spark has run the slot again
        tasks = [SimpleNamespace(status=lambda s=s: s, executorId=lambda e=e: e) for s, e in states]
        return SimpleNamespace(size=lambda: len(tasks), apply=tasks.__getitem__)


def _stage(group: str) -> Any:
    return SimpleNamespace(status=lambda: "ACTIVE", stageId=lambda: group, attemptId=lambda: 0)


def test_slots_leave_with_the_executor_that_runs_them_now() -> None:
    context = Context({"group-a": "1", "group-b": "2"})
    executors = LeavingExecutors(context)
    groups = {"a": "group-a", "b": "group-b", "not begun": "group-c"}
    assert executors.slots(groups) == frozenset()
    assert context.questions == 0
    context.leaving = {"0", "2"}
    assert executors.slots(groups) == {"b"}


def test_leaving_slots_are_reported_until_spark_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_LOOK_EVERY_S", 0.001)
    reported, ended = threading.Event(), threading.Event()
    context = Context({})

    class Runtime:
        @property
        def context(self) -> Any:
            if reported.is_set():
                ended.set()
                raise SparkError("Spark is not running")
            context.executors = {each.group: "1" for each in jobs._slots.values()}
            return context

    jobs = SlotJobs(Runtime(), lambda spec, attempt: None, lambda slot, error: None)
    jobs._slots["a"] = job._Slot("group-a")
    context.leaving = {"1"}
    leaving: list[tuple[str, float]] = []

    def on_leaving(slot_id: str, for_s: float) -> None:
        leaving.append((slot_id, for_s))
        if for_s > 0:
            reported.set()

    jobs.watch_executors(on_leaving)
    assert reported.wait(30)
    assert ended.wait(30)
    assert leaving[0] == ("a", 0)
    assert {slot for slot, _ in leaving} == {"a"}
