"""Topics that sinks' commits empty, on a running worker: each sentence of KIP-762's list of conditions, and more."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from fencepost.testing import eventually
from support.cluster import LightWorker
from support.log_writer import LogWriter

Starts = Callable[[str], list[int]]


@pytest.fixture
def sink(worker: LightWorker, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Creates sinks into files; they are gone afterwards, and so are their groups' offsets."""
    made: list[str] = []

    def create(topic: str, name: str = "", **settings: str) -> str:
        name = name or f"sink-{len(made)}-{topic}"
        made.append(name)
        config = {
            "connector.class": "FileStreamSink", "file": str(tmp_path / f"{name}.txt"), "topics": topic,
            **{key.replace("__", "."): value for key, value in settings.items()},
        }  # fmt: skip
        answer = worker.create(name, {k: v for k, v in config.items() if v})
        assert answer.status_code == 201, answer.text
        return name

    yield create
    for name in made:
        worker.rest.delete(f"/connectors/{name}")


def told(worker: LightWorker, topic: str) -> dict[str, Any]:
    """Return what the worker says of a topic."""
    found: dict[str, Any] = worker.rest.get(f"/retention/{topic}").json()
    return found


def test_records_that_the_sink_has_committed_are_deleted(
    worker: LightWorker, log_writer: LogWriter, topic: str, sink: Callable[..., str], starts: Starts
) -> None:
    log_writer.send(topic, [str(n) for n in range(10)], 0)
    log_writer.send(topic, [str(n) for n in range(7)], 1)
    sink(topic)
    eventually(lambda: starts(topic) == [10, 7], within_s=30)
    eventually(lambda: told(worker, topic)["deleted"] == 17)
    assert told(worker, topic)["refused"] is None


def test_a_consumer_group_outside_of_the_cluster_keeps_everything(
    worker: LightWorker, log_writer: LogWriter, topic: str, sink: Callable[..., str], starts: Starts
) -> None:
    outside = Consumer({"bootstrap.servers": log_writer.bootstrap, "group.id": f"outside-{topic}"})
    outside.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    log_writer.send(topic, ["a", "b"])
    name = sink(topic)
    eventually(lambda: f"outside-{topic}" in str(told(worker, topic).get("refused")), within_s=30)
    eventually(lambda: worker.rest.get(f"/connectors/{name}/offsets").json()["offsets"], within_s=30)
    assert starts(topic) == [0, 0]
    outside.close()
    assert f"retention: topic {topic} is not emptied" in worker.log_text()
