"""What lost workers' tasks hold is ended cluster by cluster, and a cluster that is away holds up no other."""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from fencepost.cluster import left_open
from fencepost.cluster.left_open import HeldId, LeftOpen
from fencepost.config import ConfigError
from fencepost.config.reference import RawConfig
from fencepost.storage.change import TargetState, TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.testing import eventually
from fencepost.transaction import WriterOpenError

NEAR: RawConfig = {"producer.override.bootstrap.servers": "near:9092"}
AWAY: RawConfig = {"producer.override.bootstrap.servers": "away:9092"}
JAVA: RawConfig = {"producer.override.ssl.truststore.type": "JKS"}


class Fences:
    """Clusters, one of which may be away, and everything that `LeftOpen` needs."""

    group_id = "g"

    def __init__(self, stopping: threading.Event) -> None:
        self.connectors: dict[str, RawConfig] = {"near": NEAR, "away": AWAY, "java": JAVA}
        self.targets: dict[str, tuple[RawConfig, ...]] = {}
        self.states: dict[str, TargetState] = {}
        self.is_away = True
        self.without_ids: set[str] = set()
        self.fenced: list[str] = []
        self.fenced_at: set[tuple[str, str]] = set()
        self.tried: list[str] = []
        self.settled = threading.Event()
        self.stopping = stopping
        self.answers: Callable[[float], object] = self.stopping.wait
        """Waits for the cluster that is away, for so many seconds at most."""
        self.left_open = LeftOpen(self, self.settled.set, self.stopping, self.fence)

    def has_ids(self, snapshot: ClusterSnapshot, connector: str) -> bool:
        return connector not in self.without_ids

    def conf(self, config: RawConfig) -> Mapping[str, Any]:
        if config == JAVA:
            raise ConfigError("ssl.truststore.type: JKS means nothing here")
        return {"bootstrap.servers": config.get("producer.override.bootstrap.servers", "near:9092")}

    def snapshot(self) -> ClusterSnapshot:
        counts = dict.fromkeys(self.connectors, 1000)
        return ClusterSnapshot(
            connectors=self.connectors,
            task_counts=counts,
            target_states=self.states,
            producer_targets=self.targets,
        )

    def fence(self, held: HeldId, timeout_s: float) -> None:
        self.tried.append(held.transactional_id)
        if held.conf["bootstrap.servers"] == "away:9092" and self.is_away:
            self.answers(timeout_s)
            raise WriterOpenError("no answer", is_passing=True)
        if held.task.connector == "refused":
            raise WriterOpenError("not authorised", is_passing=False)
        self.fenced.append(held.transactional_id)
        self.fenced_at.add((held.transactional_id, str(held.conf["bootstrap.servers"])))

    def end(self, *tasks: TaskId) -> left_open.PendingFences:
        return self.left_open.end(self.snapshot(), tasks)


class Impatient(threading.Event):
    """Waits for a moment instead of some seconds."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(0.05)


@pytest.fixture
def fences(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fences]:
    monkeypatch.setattr(left_open, "_ANSWER_S", 60.0)  # at a slow moment, clusters that are there take long
    monkeypatch.setattr(left_open, "_SETTLE_BY_S", 60.0)
    made = Fences(getattr(request, "param", threading.Event)())
    yield made
    made.stopping.set()


def _ids(connector: str, count: int) -> list[str]:
    return sorted(id_ for n in range(count) for id_ in (f"g-{connector}-{n}", f"g-{connector}-{n}#1"))


def test_connector_with_unusable_settings_does_not_block_other_fences(
    fences: Fences, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka Connect may have stored such settings. They must not keep the leader from moving other tasks."""
    fences.end(TaskId("java", 0), TaskId("near", 0), TaskId("gone", 1)).wait()
    assert sorted(fences.fenced) == sorted(["g-near-0", "g-near-0#1", "g-gone-1", "g-gone-1#1"])
    assert "task java-0 is not fenced: " in caplog.text


def test_tasks_are_fenced_on_every_cluster_they_may_have_written_to(fences: Fences) -> None:
    """The connector was given other brokers, or deleted, before its tasks had ended."""
    fences.targets = {"near": ({"producer.override.bootstrap.servers": "before:9092"},), "gone": (NEAR,)}
    fences.end(TaskId("near", 0), TaskId("gone", 0)).wait()
    assert {at for id_, at in fences.fenced_at if id_ == "g-near-0"} == {"before:9092", "near:9092"}
    assert ("g-gone-0", "near:9092") in fences.fenced_at


def test_unreachable_cluster_delays_other_fences_by_only_one_timeout(
    fences: Fences,
) -> None:
    waits_s: list[float] = []

    def answers(timeout_s: float) -> None:
        waits_s.append(timeout_s)
        eventually(lambda: len(fences.fenced) == 400, within_s=timeout_s)

    fences.answers = answers
    tasks = [TaskId(name, n) for name in ("away", "near") for n in range(200)]
    ending = fences.end(*tasks)
    assert fences.settled.wait(60), "25 minutes, one after the other"
    assert ending.is_settled
    assert waits_s == [left_open._ANSWER_S]
    assert sorted(fences.fenced) == _ids("near", 200)
    assert len([id_ for id_ in fences.tried if "away" in id_]) == 1, "a cluster that does not answer is asked once"


def test_fence_refused_by_kafka_is_logged_and_not_waited_for(fences: Fences, caplog: pytest.LogCaptureFixture) -> None:
    fences.end(TaskId("near", 0), TaskId("refused", 0)).wait()
    assert "not authorised" in caplog.text
    assert sorted(fences.fenced) == _ids("near", 1)


@pytest.mark.parametrize("fences", [Impatient], indirect=True)
def test_paused_tasks_are_fenced_once_their_cluster_is_reachable(fences: Fences) -> None:
    fences.states["away"] = TargetState.PAUSED
    fences.end(TaskId("away", 0)).wait()
    fences.is_away = False
    eventually(lambda: sorted(fences.fenced) == _ids("away", 1), within_s=60)


@pytest.mark.parametrize("fences", [Impatient], indirect=True)
def test_late_fence_is_skipped_when_the_task_was_restarted_elsewhere(fences: Fences) -> None:
    fences.connectors["paused"] = AWAY
    fences.states["paused"] = TargetState.PAUSED
    fences.end(TaskId("away", 0), TaskId("paused", 0)).wait()
    fences.is_away = False
    eventually(lambda: sorted(fences.fenced) == _ids("paused", 1), within_s=60)
    assert not any("away" in id_ for id_ in fences.fenced)


def test_tasks_without_transactional_ids_are_not_fenced(fences: Fences) -> None:
    fences.without_ids = {"away"}
    fences.end(TaskId("near", 0), TaskId("away", 0)).wait()
    assert fences.tried == _ids("near", 1)
    fences.without_ids = {"near", "away"}
    assert fences.end(TaskId("near", 0)).is_settled
    assert fences.tried == _ids("near", 1)
