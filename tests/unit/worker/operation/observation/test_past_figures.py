"""The last hour of what tasks have moved: kept in bounded memory, and asked of all workers."""

from collections.abc import Collection, Mapping

import pytest

from fencepost.rest.response import to_json
from fencepost.storage.change import Assignment, WorkerAssignment
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.message import RunState, TaskReport
from fencepost.task.start.run import Counters
from fencepost.worker.operation.observation import figures as module
from fencepost.worker.operation.observation.figures import Figures, Past
from fencepost.worker.supervision.task_metrics import TaskTotals

HERE, THERE = "http://here:8083", "http://there:8083"


class Asked:
    """Another worker, which has kept the same."""

    def __init__(self) -> None:
        self.answer = b"[]"

    def ask(self, urls: Collection[str], path: str, within_s: float) -> Mapping[str, bytes]:
        return dict.fromkeys(urls, self.answer)


class Stage:
    """A worker with tasks of some connectors, and a clock."""

    def __init__(self, *connectors: str) -> None:
        self.now_s = 1_000.0
        self.totals, self.asked = TaskTotals(), Asked()
        self.counters = Counters()  # of one start: another one would begin with other totals
        workers = (WorkerAssignment("i", HERE), WorkerAssignment("j", THERE))
        self.snapshot = ClusterSnapshot(connectors={name: {} for name in connectors}, assignment=Assignment(1, workers))
        figures = Figures(HERE, lambda: self.snapshot, self.totals, dict, self.asked)
        self.past = Past(HERE, lambda: self.snapshot, figures.here, self.asked, lambda: self.now_s)

    def moves(self, connector: str, written: int) -> None:
        self.counters.records_written = written
        self.totals.reported(TaskReport(connector, 0, "i", RunState.RUNNING, counters=self.counters.to_json()))

    def looks(self, passed_s: float = 10.0) -> None:
        self.now_s += passed_s
        self.past.look()


def test_worker_keeps_a_sample_every_ten_seconds_and_asks_other_workers() -> None:
    stage = Stage("c")
    for written in (0, 50, 70):
        stage.moves("c", written)
        stage.looks()
        stage.looks(1.0)
    (kept,) = stage.past.here()
    assert (kept.connector, list(kept.written)) == ("c", [0, 50, 70])
    stage.asked.answer = to_json([kept])
    assert [(one.connector, list(one.written)) for one in stage.past.read()] == [("c", [0, 50, 70])] * 2


def test_answer_of_a_worker_of_another_version_is_left_out() -> None:
    stage = Stage("c")
    stage.asked.answer = b'[{"connector": 1}]'
    assert stage.past.read() == []


def test_memory_is_bounded_and_connectors_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_VALUES", 8)
    stage = Stage("a", "b")
    for written in range(20):
        stage.moves("a", written)
        stage.moves("b", written)
        stage.looks()
    assert [len(one.at_s) for one in stage.past.here()] == [4, 4]
    stage.totals.keep_only(set())
    stage.snapshot = ClusterSnapshot(connectors={"a": {}})
    stage.looks()
    assert [one.connector for one in stage.past.here()] == ["a"]
