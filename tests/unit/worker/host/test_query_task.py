"""The task of a streaming query, over a Spark that is made up."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from fencepost.api import FatalError
from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.config.worker import WorkerConfig
from fencepost.record import TopicPartition
from fencepost.spark.query.run import QueryProgress
from fencepost.spark.slot.cores import CoreLedger, CoreUse
from fencepost.spark.slot.job import ProcessEnds
from fencepost.task.channel.message import Admission, RunState, TaskReport
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.task.failure.tolerance import BackOff
from fencepost.testing import eventually
from fencepost.worker.host import query as module
from fencepost.worker.host.dataframe_host import DataFrameHost
from fencepost.worker.host.frame import task as frame_task
from fencepost.worker.host.query import QueryTask
from fencepost.worker.host.split.channel import SplitChannel
from fencepost.worker.operation.observation.figures import figures_of
from support.settings import SETTINGS

CONFIG = {
    "name": "c",
    "connector.class": "SqlStream",
    "topics": "orders",
    "sql": "SELECT key FROM orders",
    "output.topic": "out",
    "checkpoint.location": "/none",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
}
BATCH = QueryProgress(3, 10, 4, 20.0, 500, 60_000, 7, {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 1})


class Query:
    """A run of a query: what it has done, and how it ends."""

    group, driver_thread, step = "run", 7, ""

    def __init__(self) -> None:
        self.made: list[QueryProgress] = []
        self.error: Exception | None = None
        self.is_stopped = threading.Event()

    def progress(self) -> list[QueryProgress]:
        made, self.made = self.made, []
        return made

    def failure(self) -> Exception | None:
        return self.error

    def wait(self, timeout_s: float) -> None: ...

    def stop(self) -> None:
        self.is_stopped.set()


class Stage:
    """A task whose queries are these; each start of one is noted."""

    is_alive, session = True, None

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queries: list[Query] = []
        self.next: Callable[[], Query] = Query
        self.reports: list[TaskReport] = []
        self.is_admitted = True
        self.ledger = CoreLedger(1)
        anything = cast(Any, self)
        monkeypatch.setattr(module, "_LOOK_S", 0.01)
        monkeypatch.setattr(frame_task, "BackOff", lambda control, pauses_s: BackOff(control, (0.0,)))
        monkeypatch.setattr(module, "new_session", lambda runtime: None)
        monkeypatch.setattr(module.QueryFrames, "records", lambda *_: None)
        monkeypatch.setattr(module.RunningQuery, "start", self._start)
        host = DataFrameHost(
            WorkerConfig({**SETTINGS, "bootstrap.servers": "b:9"}),
            anything,
            self.ledger,
            anything,
            lambda _: SqlStream,
            SplitChannel("", anything),
            ProcessEnds(),
        )
        spec = TaskSpec("c", 0, 1, "i", CONFIG, CONFIG, output=OutputSpec({}, transactional_id="g-c-0"))
        self.task = QueryTask(host, spec, anything)

    def _start(self, *_: object) -> Query:
        self.queries.append(self.next())
        return self.queries[-1]

    # Spark, admissions and events

    def adopt_thread(self, tag: str) -> None: ...

    def driver_thread(self) -> int:
        return 1

    def decide(self, *_: object) -> Admission:
        return Admission(self.is_admitted, "another start is newer")

    def reported(self, reports: list[TaskReport]) -> None:
        self.reports += reports

    @property
    def states(self) -> list[RunState]:
        found = [report.state for report in self.reports]
        return [state for n, state in enumerate(found) if n == 0 or found[n - 1] is not state]

    def until(self, condition: Callable[[], object]) -> None:
        eventually(condition, within_s=60)

    def end(self) -> None:
        self.task.control.stop()
        self.task.thread.join(60)
        assert not self.task.thread.is_alive()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_progress_of_a_query_is_reported_with_lags_by_topic(stage: Stage) -> None:
    stage.task.thread.start()
    stage.until(lambda: stage.queries)
    stage.queries[0].made = [BATCH]
    stage.until(lambda: stage.task.counters.query_batch == 3)
    stage.until(lambda: stage.reports[-1].counters["query_batch"] == 3)
    found = figures_of(stage.reports[-1], "w", None)
    stage.end()
    assert (found.kind, found.records_read_total, found.records_written_total, found.lag_max) == ("stream", 10, 4, 5)
    assert found.query is not None
    assert (found.query.batch, found.query.rows_per_second, found.query.batch_ms) == (3, 20.0, 500)
    assert (found.query.watermark_ms, found.query.state_rows, found.query.lag) == (60_000, 7, {"orders": 6})
    assert stage.queries[0].is_stopped.is_set()


def test_paused_query_is_stopped_and_gives_its_core_back_until_it_is_resumed(stage: Stage) -> None:
    stage.task.thread.start()
    stage.until(lambda: stage.queries)
    stage.task.control.pause()
    stage.until(lambda: stage.states[-1:] == [RunState.PAUSED])
    assert stage.queries[0].is_stopped.is_set()
    assert stage.ledger.taken(CoreUse.SPLIT) == 0
    stage.task.control.resume()
    stage.until(lambda: len(stage.queries) == 2)
    stage.end()
    assert stage.states == [RunState.RUNNING, RunState.PAUSED, RunState.RUNNING, RunState.STOPPED]


def test_query_that_fails_is_started_again_until_it_has_failed_five_times(stage: Stage) -> None:
    def failing() -> Query:
        query = Query()
        query.error = RuntimeError("by zero")
        return query

    stage.next = failing
    stage.task.thread.start()
    stage.task.thread.join(60)
    assert len(stage.queries) == 5
    assert all(query.is_stopped.is_set() for query in stage.queries)
    assert stage.reports[-1].state is RunState.FAILED
    assert "by zero" in (stage.reports[-1].trace or "")
    assert stage.ledger.taken(CoreUse.SPLIT) == 0


def test_query_that_does_not_fit_its_checkpoint_is_not_started_again(stage: Stage) -> None:
    stage.task.thread.start()
    stage.until(lambda: stage.queries)
    stage.queries[0].error = FatalError("it does not fit its checkpoint")
    stage.task.thread.join(60)
    assert (len(stage.queries), stage.reports[-1].state) == (1, RunState.FAILED)


def test_start_that_is_not_admitted_starts_no_query(stage: Stage) -> None:
    stage.is_admitted = False
    stage.task.thread.start()
    stage.task.thread.join(60)
    assert (stage.queries, stage.reports[-1].state) == ([], RunState.ABANDONED)
