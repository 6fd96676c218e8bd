"""What a worker does with its tasks when Spark goes, and when the worker itself stops."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencepost.worker import process as module
from fencepost.worker.process import WorkerProcess


class Runtime:
    def on_exit(self, listener: Any) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


@pytest.mark.parametrize(
    ("is_stopping", "expected"),
    [(False, ["ready", "gone", "ready"]), (True, ["ready"])],
    ids=["spark-goes", "the-worker-stops"],
)
def test_dataframe_tasks_are_lost_only_when_spark_goes(
    monkeypatch: pytest.MonkeyPatch, is_stopping: bool, expected: list[str]
) -> None:
    """When the worker stops they end by themselves, with the split that is being written."""
    monkeypatch.setattr(module, "SparkRuntime", lambda *_, **__: Runtime())
    monkeypatch.setattr(module, "_RESTART_SPARK_S", 0.0)
    told: list[str] = []
    stopping = threading.Event()

    def stay(*_: object) -> None:
        if is_stopping or len(told) > 1:
            stopping.set()

    frames = SimpleNamespace(attach=lambda runtime: told.append("ready" if runtime else "gone"))
    worker = SimpleNamespace(
        _stopping=stopping,
        _driver=SimpleNamespace(secrets={}, take=lambda: None),
        settings=SimpleNamespace(config=SimpleNamespace(spark={})),
        _slots=SimpleNamespace(attach=lambda _: None),
        _frames=frames,
        _use_spark=frames.attach,
        _stay_with_spark=stay,
    )
    WorkerProcess._run_spark(cast(WorkerProcess, worker))
    assert told == expected
