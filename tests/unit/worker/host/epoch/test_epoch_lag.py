"""The lag that a task reports which works in epochs."""

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.record import TopicPartition
from fencepost.task.channel.message import RunState
from fencepost.task.life.counters import SinkCounters
from fencepost.task.sink.epoch_plan import EpochMetadata, EpochOffset
from fencepost.worker.host.epoch import planner as planner_module
from fencepost.worker.host.epoch.life import EpochLife
from fencepost.worker.host.epoch.planner import EpochPlanner

PLACE = TopicPartition("t", 0)


class Life(EpochLife):
    """A task without a group and Spark: `offset` is the group's, `end` that of the log."""

    def __init__(self) -> None:
        self.counters, self.offset, self.end = SinkCounters(), 0, 100
        self.reported: list[int] = []
        self._lags = {}
        every: Any = SimpleNamespace(
            epoch_rows_max=1000, epoch_interval_ms=3_600_000, partition_rows_min=1, partition_wait_max_ms=0
        )
        self._planner = EpochPlanner(every, None)
        self._logs: Any = SimpleNamespace(look=lambda *_: (self._offsets(), {PLACE: self.end}))
        self._reader: Any = SimpleNamespace(registry_conf=None)
        self.membership: Any = SimpleNamespace(input=SimpleNamespace(partitions=set), held=None)
        self._back_off: Any = SimpleNamespace(passed=lambda: None)
        self.spec: Any = SimpleNamespace(is_stream=False)

    def _offsets(self) -> dict[TopicPartition, EpochOffset]:
        return {PLACE: EpochOffset(self.offset, EpochMetadata(1))}

    def _report(self, state: RunState, trace: str | None = None) -> None:
        self.reported.append(self.counters.lag_max)

    def _started(self, number: int, offsets: Any) -> None: ...

    def _make_durable(self, plan: Any) -> None: ...

    def _finish(self, epoch: Any, batch: Any) -> None: ...


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "_LOOK_S", 0.0)


def test_lag_of_an_epoch_that_is_committed_is_over() -> None:
    life = Life()
    plan = life._next()
    assert plan is not None
    life._ended(plan.epoch, 0.0)
    assert life.reported == [100, 0]


def test_lag_is_reported_when_it_grows_before_the_next_epoch_is_due() -> None:
    life = Life()
    plan = life._next()
    assert plan is not None
    life._ended(plan.epoch, 0.0)
    life.offset, life.end = 100, 130
    assert life._next() is None
    assert life._next() is None
    assert life.reported == [100, 0, 30]
