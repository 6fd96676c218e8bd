"""What a lost worker's tasks hold is fenced connector by connector."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.config.worker import WorkerConfig
from fencepost.storage.ids import TaskId
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker import process
from fencepost.worker.process import WorkerProcess
from fencepost.worker.settings import WorkerSettings
from support.settings import SETTINGS

WORKER = {**SETTINGS, "bootstrap.servers": "k:9092", "exactly.once.source.support": "enabled"}


def test_a_connector_whose_settings_mean_nothing_here_keeps_no_other_from_being_fenced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka Connect may have stored it. The worker could not start, and the leader would move nobody's tasks."""
    fenced: dict[str, str] = {}

    def fence(ids: Iterable[str], conf_of: Any, timeout_s: float) -> None:
        fenced.update({id_: conf_of(id_)["bootstrap.servers"] for id_ in ids})

    monkeypatch.setattr(process, "fence", fence)
    settings = WorkerSettings(WorkerConfig(WORKER), "http://w:1", "me")
    worker: Any = SimpleNamespace(settings=settings)
    worker._fencing_conf = lambda snapshot, connector: WorkerProcess._fencing_conf(worker, snapshot, connector)
    java = {"producer.override.ssl.truststore.location": "x.jks", "producer.override.ssl.truststore.type": "JKS"}
    snapshot = ClusterSnapshot(connectors={"java": java, "c": {"name": "c"}})
    WorkerProcess._fence_lost(worker, snapshot, [TaskId("java", 0), TaskId("c", 0), TaskId("gone", 1)])
    assert fenced == dict.fromkeys(["g-c-0", "g-c-0#1", "g-gone-1", "g-gone-1#1"], "k:9092")
    assert "tasks of connector java are not fenced: " in caplog.text
