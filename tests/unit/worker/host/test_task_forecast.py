"""What Spark's keeper is told of a worker's tasks."""

from types import SimpleNamespace
from typing import Any, cast

from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.host.spark_keeper import TaskForecast


def test_dataframes_are_awaited_once_the_config_topic_has_such_a_connector() -> None:
    topics = SimpleNamespace(snapshot=ClusterSnapshot())
    forecast = TaskForecast("http://w", cast(Any, topics), cast(Any, None), cast(Any, None))
    assert not forecast.awaits_frames
    topics.snapshot = ClusterSnapshot(connectors={"c": {"name": "c", "connector.class": "FilesSink"}})
    assert forecast.awaits_frames
