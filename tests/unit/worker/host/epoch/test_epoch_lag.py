"""The lag that a task reports which works in epochs."""

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.record import TopicPartition
from fencepost.task.channel.message import RunState
from fencepost.task.sink.epoch_plan import EpochMetadata, EpochOffset
from fencepost.task.start.run import SinkCounters
from fencepost.worker.host.epoch import task as planner_module
from fencepost.worker.host.epoch.membership import HeldPartitions
from fencepost.worker.host.epoch.task import EpochLogs, EpochPlanner, EpochTask

PLACE = TopicPartition("t", 0)


class Logs(EpochLogs):
    """The log that a task has."""

    def __init__(self, life: "Life") -> None:
        self._life, self._ends = life, {}

    def look(self, held: HeldPartitions, there: set[TopicPartition]) -> Any:
        self._ends = {PLACE: self._life.end}
        return dict(held.offsets), self._ends


class Life(EpochTask):
    """A task without a group and Spark: `end` is that of its log."""

    def __init__(self) -> None:
        self.counters, self.end = SinkCounters(), 100
        self.reported: list[int] = []
        every: Any = SimpleNamespace(
            epoch_rows_max=1000, epoch_interval_ms=3_600_000, partition_rows_min=1, partition_wait_max_ms=0
        )
        self._planner = EpochPlanner(every, None)
        self._logs = Logs(self)
        self._reader: Any = SimpleNamespace(registry_conf=None)
        self.membership: Any = SimpleNamespace(
            input=SimpleNamespace(partitions=set), held=HeldPartitions(dict, lambda: None)
        )
        self._back_off: Any = SimpleNamespace(passed=lambda: None)
        self.spec: Any = SimpleNamespace(is_stream=False)
        self.commit(0)

    def commit(self, offset: int) -> None:
        self.membership.held.offsets[PLACE] = EpochOffset(offset, EpochMetadata(1))

    def _report(self, state: RunState, trace: str | None = None) -> None:
        self.reported.append(self.counters.lag_max)

    def _started(self, number: int, offsets: Any) -> None: ...

    def _make_durable(self, plan: Any) -> None: ...

    def _finish(self, epoch: Any, batch: Any) -> None: ...


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "_LOOK_S", 0.0)


def test_lag_is_zero_when_the_epoch_is_committed() -> None:
    life = Life()
    plan = life._next()
    assert plan is not None
    life.commit(100)
    life._ended(plan.epoch, 0.0)
    assert life.reported == [100, 0]


def test_lag_is_reported_when_it_grows_before_the_next_epoch_is_due() -> None:
    life = Life()
    plan = life._next()
    assert plan is not None
    life.commit(100)
    life._ended(plan.epoch, 0.0)
    life.end = 130
    assert life._next() is None
    assert life._next() is None
    assert life.reported == [100, 0, 30]
