"""What a lost worker's tasks hold is fenced connector by connector."""

from collections.abc import Iterable
from typing import Any

import pytest

from fencepost.config.worker import WorkerConfig
from fencepost.storage.change import Assignment, WorkerAssignment
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.fence import TaskFence
from support.settings import SETTINGS

URL = "http://w:1"
WORKER = {**SETTINGS, "bootstrap.servers": "k:9092", "exactly.once.source.support": "enabled"}


class Fenced:
    """A fence that takes notes: which id, and where."""

    def __init__(self, **settings: str) -> None:
        self.ids: dict[str, str] = {}
        self.fence = TaskFence(WorkerSettings(WorkerConfig({**WORKER, **settings}), URL, "me"), self._take)

    def _take(self, ids: Iterable[str], conf_of: Any, timeout_s: float) -> None:
        self.ids.update({id_: conf_of(id_)["bootstrap.servers"] for id_ in ids})


def test_a_connector_whose_settings_mean_nothing_here_keeps_no_other_from_being_fenced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Kafka Connect may have stored it. The worker could not start, and the leader would move nobody's tasks."""
    java = {"producer.override.ssl.truststore.location": "x.jks", "producer.override.ssl.truststore.type": "JKS"}
    snapshot = ClusterSnapshot(connectors={"java": java, "c": {"name": "c"}})
    fenced = Fenced()
    fenced.fence.fence_lost(snapshot, [TaskId("java", 0), TaskId("c", 0), TaskId("gone", 1)])
    assert fenced.ids == dict.fromkeys(["g-c-0", "g-c-0#1", "g-gone-1", "g-gone-1#1"], "k:9092")
    assert "tasks of connector java are not fenced: " in caplog.text


def test_a_predecessor_is_who_had_this_address_under_another_incarnation() -> None:
    mine = WorkerAssignment("me", URL, (), (TaskId("c", 0),))
    before = WorkerAssignment("before", URL, (), (TaskId("c", 1),))
    other = WorkerAssignment("other", "http://w:2", (), (TaskId("c", 2),))
    fenced = Fenced()
    fenced.fence.fence_predecessor(ClusterSnapshot(assignment=Assignment(1, (mine, before, other))))
    assert set(fenced.ids) == {"g-c-1", "g-c-1#1"}


def test_nothing_is_fenced_where_exactly_once_is_off() -> None:
    fenced = Fenced(**{"exactly.once.source.support": "disabled"})
    fenced.fence.fence_lost(ClusterSnapshot(), [TaskId("c", 0)])
    assert fenced.ids == {}
