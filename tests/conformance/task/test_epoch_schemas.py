"""The schema that defines the columns of an epoch: decided with its plan, and the same whoever writes it."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pytest
from epoch_stage import Stage, crash

from fencepost.api import Epoch, FatalError, UnavailableError
from fencepost.spark.epoch.frame import EpochFrames
from fencepost.task.channel.message import RunState
from fencepost.testing import eventually


class Registry:
    """The ids of a registry: `newest` of all topics."""

    def __init__(self) -> None:
        self.newest = 1
        self.error: Exception | None = None
        self.used: list[tuple[int, Mapping[str, int]]] = []  # where an epoch begins, and its schemas

    def planned(self, topics: Collection[str]) -> Mapping[str, int]:
        if self.error is not None:
            raise self.error
        return dict.fromkeys(topics, self.newest)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    made = Registry()

    def frame(self: Any, session: Any, epoch: Epoch, url: str, run: str, tally: Any, schemas: Any) -> Epoch:
        made.used.append((epoch.ranges[0].start, schemas))
        return epoch

    monkeypatch.setattr(EpochFrames, "registry_conf", {"schema.registry.url": "http://localhost:1"})
    monkeypatch.setattr(EpochFrames, "planned_schemas", lambda _, topics: made.planned(topics))
    monkeypatch.setattr("epoch_stage.read_frame", frame)
    return made


@pytest.fixture
def stage(registry: Registry, kafka, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(kafka.bootstrap_servers, topic_name, monkeypatch)
    yield made
    made.end()


def test_e16_begun_epoch_is_written_with_the_schema_of_its_plan(stage: Stage, registry: Registry) -> None:
    stage.produce(5)
    held = stage.store.hold("write")
    first = stage.start()
    held.await_met()
    registry.newest = 2
    stage.produce(7)
    crash(first)
    stage.start()
    eventually(lambda: stage.offsets().get(0) == 12, within_s=60)
    held.release()
    stage.store.holds({0: 12})
    assert registry.used == [(0, {stage.topic: 1}), (0, {stage.topic: 1}), (5, {stage.topic: 2})]


def test_no_epoch_is_planned_and_no_record_is_lost_while_the_registry_is_away(stage: Stage, registry: Registry) -> None:
    registry.error = UnavailableError("the registry is away")
    stage.produce(5)
    # An interval that the test does not live to see: it is not over when the registry is back.
    task = stage.start(**{"epoch.interval.ms": "3600000"})
    eventually(lambda: any("the registry is away" in str(each.trace) for each in stage.reports), within_s=60)
    assert stage.offsets().get(0, 0) == 0
    assert stage.note().end is None
    registry.error = None
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    stage.store.holds({0: 5})
    assert task.thread.is_alive()


def test_refused_registry_credentials_fail_the_task_at_once(stage: Stage, registry: Registry) -> None:
    registry.error = FatalError("it refuses our credentials")
    stage.produce(5)
    task = stage.start()
    task.thread.join(60)
    assert stage.reports[-1].state is RunState.FAILED
    assert "it refuses our credentials" in str(stage.reports[-1].trace)
    assert stage.note().end is None


def test_record_is_written_when_its_schema_appears_before_its_dead_letter(
    stage: Stage, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was left out, and then it had no dead letter: a registry may answer before it knows all its schemas."""
    left_out = iter([2, 1])
    monkeypatch.setattr("epoch_stage.Sink.writes_at_once", True)
    monkeypatch.setattr(EpochFrames, "has_dead_letters", True)
    monkeypatch.setattr("fencepost.worker.host.epoch.sink_and_stream.Tally.count", lambda _: next(left_out))
    monkeypatch.setattr("fencepost.worker.host.epoch.sink_and_stream.write_dead_letters", lambda *_: 1)
    stage.produce(5)
    stage.start(**{"errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"{stage.topic}-dead"})
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    assert registry.used == [(0, {stage.topic: 1})] * 2
    assert len(stage.store.written) == 2
    stage.store.holds({0: 5})


def test_epoch_planned_without_a_schema_gets_a_fixed_one_when_it_is_repeated(
    stage: Stage, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The converter was another one then, or the release."""
    monkeypatch.setattr(EpochFrames, "registry_conf", None)
    stage.produce(5)
    held = stage.store.hold("write")
    first = stage.start()
    held.await_met()
    assert stage.note().schema is None
    crash(first)
    monkeypatch.setattr(EpochFrames, "registry_conf", {"schema.registry.url": "http://localhost:1"})
    noted: list[int | None] = []
    stage.store.before["write"] = lambda _: noted.append(stage.note().schema)
    stage.start()
    eventually(lambda: stage.offsets().get(0) == 5, within_s=60)
    held.release()
    assert noted == [1]
    assert registry.used[-1] == (0, {stage.topic: 1})
