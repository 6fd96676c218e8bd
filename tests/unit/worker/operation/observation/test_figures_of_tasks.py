"""How reports of tasks become figures, and those of several workers one answer."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from fencepost.api import SourceConnector
from fencepost.cluster.figures import ANSWER_S, ReportedTask, SlotFigures, TaskFigures
from fencepost.config.reference import RawConfig
from fencepost.config.worker import WorkerConfig
from fencepost.rest.response import to_json
from fencepost.storage.change import Assignment, TaskId, WorkerAssignment
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.message import RETRYING, RunState, TaskReport
from fencepost.task.start.run import Counters, SinkCounters, StreamCounters
from fencepost.worker.operation.observation import figures
from fencepost.worker.operation.observation.figures import Description, Figures, delivery_of, described, figures_of
from fencepost.worker.supervision.task_metrics import TaskTotals

NEEDED = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
WORKER = WorkerConfig(
    {**dict.fromkeys(NEEDED, "x"), "key.converter": "JsonConverter", "value.converter": "JsonConverter"}
)
HERE, THERE = "http://here:8083", "http://there:8083"
SLOT = SlotFigures("s", 7, 1 << 20)


def report(
    counters: Counters, *, connector: str = "c", task: int = 0, state: RunState = RunState.RUNNING
) -> TaskReport:
    return TaskReport(connector, task, f"{connector}-{task}", state, counters=counters.to_json())


def test_a_task_that_has_just_begun_has_no_times_but_its_start() -> None:
    found = figures_of(report(Counters()), "here:8083", SLOT)
    assert (found.kind, found.worker_id, found.slot) == ("source", "here:8083", SLOT)
    assert found.started_ms is not None
    assert (found.last_record_ms, found.last_commit_ms, found.open_since_ms, found.open_records) == (
        None,
        None,
        None,
        0,
    )
    assert (found.lag_max, found.stands_still) == (None, False)


def test_source_shows_its_open_records() -> None:
    counters = Counters()
    counters.polled(3, 0.1)
    counters.sent(2, ["t", "t"])
    found = figures_of(report(counters), "w", None)
    assert (found.records_read_total, found.records_written_total, found.open_records) == (3, 2, 2)
    assert found.open_since_ms == round(counters.open_since_s * 1000)
    assert found.last_record_ms == round(counters.last_record_s * 1000)


def test_ended_task_has_no_open_records_and_keeps_its_totals() -> None:
    counters = Counters()
    counters.sent(2, ["t", "t"])
    found = figures_of(report(counters, state=RunState.FAILED), "w", None)
    assert (found.records_written_total, found.open_records, found.open_since_ms) == (2, 0, None)


@pytest.mark.parametrize(("state", "retrying"), [(RunState.RUNNING, True), (RunState.FAILED, False)])
def test_task_is_retrying_until_its_retries_are_over(state: RunState, retrying: bool) -> None:
    told = replace(report(Counters(), state=state), counters={RETRYING: 1.0})
    assert figures_of(told, "w", None).retrying is retrying


def test_sinks_and_streams_have_a_lag() -> None:
    for counters, kind in ((SinkCounters(), "sink"), (StreamCounters(), "stream")):
        counters.lag_max = 12
        found = figures_of(report(counters), "w", None)
        assert (found.kind, found.lag_max) == (kind, 12)


class Cluster:
    """Two workers: task 0 of `c` runs here, task 1 there, and task 2 nowhere."""

    def __init__(self) -> None:
        self.totals = TaskTotals()
        self.asked: list[tuple[list[str], str, float]] = []
        self.answers: dict[str, bytes] = {}
        workers = (
            WorkerAssignment("a", HERE, (), (TaskId("c", 0),)),
            WorkerAssignment("b", THERE, (), (TaskId("c", 1),)),
        )
        self.snapshot = ClusterSnapshot(
            connectors={"c": {}, "d": {}}, task_counts={"c": 3, "d": 0}, assignment=Assignment(1, workers)
        )
        self.figures = Figures(HERE, lambda: self.snapshot, self.totals, lambda: {"c-0": SLOT}, self)

    def ask(self, urls: Collection[str], path: str, within_s: float) -> Mapping[str, bytes]:
        self.asked.append((sorted(urls), path, within_s))
        return {url: self.answers[url] for url in urls if url in self.answers}

    def read(self, *names: str) -> Sequence[TaskFigures]:
        return self.figures.read(names)["c"].tasks


def test_figures_of_a_task_come_from_the_worker_it_is_assigned_to() -> None:
    cluster = Cluster()
    for task in (0, 1):  # it has run task 1 before
        cluster.totals.reported(report(Counters(), task=task))
    there = TaskFigures(1, "there:8083", "sink", int(time.time() * 1000), slot=SlotFigures("t", 8))
    cluster.answers[THERE] = to_json([ReportedTask("c", there)])
    first, second, third = cluster.read("c", "d")
    assert (first.worker_id, first.slot) == ("here:8083", SLOT)
    assert second == there
    assert third == TaskFigures(2)
    assert cluster.asked == [([THERE], "/internal/figures", ANSWER_S)]


def test_only_the_name_is_shown_of_a_worker_that_does_not_answer() -> None:
    cluster = Cluster()
    assert cluster.read("c")[1] == TaskFigures(1, "there:8083")
    cluster.answers[THERE] = b'[{"connector": "c", "figures": {"id": "another version"}}]'
    assert cluster.read("c")[1] == TaskFigures(1, "there:8083")


def test_figures_are_requested_only_from_workers_with_tasks_of_the_connector() -> None:
    cluster = Cluster()
    assert cluster.figures.read(["d"])["d"].tasks == []
    cluster.read("c")
    assert [(urls, path) for urls, path, _ in cluster.asked if urls] == [([THERE], "/internal/figures?connector=c")]


def test_kind_and_delivery_are_computed_once_for_each_config() -> None:
    cluster, asked = Cluster(), []

    def describe(config: RawConfig) -> Description:
        asked.append(config["connector.class"])
        return described(config, WORKER)

    cluster.figures = Figures(HERE, lambda: cluster.snapshot, cluster.totals, dict, cluster, describe)

    def kind(of: str) -> str | None:
        connectors = {"c": {"connector.class": of}}
        if dict(cluster.snapshot.connectors["c"]) != connectors["c"]:
            cluster.snapshot = replace(cluster.snapshot, connectors=connectors)
        found = cluster.figures.read(["c"])["c"]
        assert found.delivery == delivery_of(connectors["c"], WORKER)
        return found.kind

    classes = ("TopicSql", "MirrorSinkConnector", "MirrorHeartbeatConnector", "FilesSink", "Datagen", "NotInstalled")
    assert [kind(each) for each in classes for _ in range(2)] == [
        "stream", "stream", *["mirror"] * 4, "sink", "sink", "source", "source", None, None
    ]  # fmt: skip
    assert asked == [*classes]  # also of the last one: to look for a class that is not installed takes 14 ms


def test_warnings_are_computed_again_until_a_jvm_has_answered_with_the_keys() -> None:
    cluster, found = Cluster(), iter([Description("source"), Description("source", None, ["no"]), Description("sink")])
    cluster.figures = Figures(HERE, lambda: cluster.snapshot, cluster.totals, dict, cluster, lambda _: next(found))
    assert [cluster.figures.read(["c"])["c"].warnings for _ in range(3)] == [None, ["no"], ["no"]]


def test_keys_that_nothing_reads_are_known_without_a_validation() -> None:
    odd = {"connector.class": "FileStreamSource", "topic": "t", "tasks.maxx": "geheim"}
    (warning,) = described(odd, WORKER).warnings or ()
    assert "tasks.maxx" in warning
    assert "geheim" not in warning


def test_jvm_is_not_started_for_the_keys_of_a_java_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    own = type("Java", (SourceConnector,), {"java": 1, "known_settings": classmethod(lambda _, *, asks=True: None)})
    monkeypatch.setattr(figures, "typical_class_of", lambda _: own)
    monkeypatch.setattr(figures, "config_warnings", lambda *_, **__: pytest.fail("it asks a JVM"))
    assert described({"connector.class": "Java"}, WORKER).warnings is None


def test_a_connector_that_does_not_exist_is_left_out() -> None:
    assert Cluster().figures.read(["absent"]) == {}
