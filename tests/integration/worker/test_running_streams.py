"""A stream on a running worker: a connector like a sink, whose tasks write what they read, exactly once."""

import os
import signal
from collections.abc import Callable

import pytest
from file_connector import Produce

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.worker import Worker


@pytest.fixture
def target(kafka: EmbeddedKafka, topic_name: str) -> str:
    made = f"{topic_name}-out"
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(made, partitions=4, replication=1)
    return made


@pytest.fixture
def value_of() -> Callable[[int], bytes]:
    return lambda number: f"line {number}".encode()


def test_a_stream_is_created_watched_and_moved_like_a_sink(
    worker: Worker, name: str, topic: str, target: str, produce: Produce, values: Callable[..., list[str]]
) -> None:
    produce(1, 400)
    config = {"connector.class": "worker_suite.ShoutingConnector", "topics": topic, "target": target, "tasks.max": "2"}
    created = worker.create(name, config)
    assert (created.status_code, created.json().get("type")) == (201, "sink"), created.text
    worker.wait_for_tasks(name, "RUNNING", "RUNNING")
    assert sorted(values(target, at_least=400, within_s=60)) == sorted(f"LINE {n}" for n in range(1, 401))
    eventually(lambda: worker.sink_offsets(name) == {(topic, n): 100 for n in range(4)}, within_s=60)
    assert worker.rest.put(f"/connectors/{name}/stop").status_code == 204
    eventually(lambda: worker.status(name)["tasks"] == [], within_s=60)
    back = {"partition": {"kafka_topic": topic, "kafka_partition": 1}, "offset": {"kafka_offset": 99}}

    def moved() -> bool:  # once its members have left
        answer = worker.rest.patch(f"/connectors/{name}/offsets", json={"offsets": [back]})
        return answer.status_code == 200

    eventually(moved, within_s=60)
    assert worker.rest.put(f"/connectors/{name}/resume").status_code == 202
    assert sorted(values(target, at_least=401, within_s=60)) == sorted(
        [*(f"LINE {n}" for n in range(1, 401)), "LINE 397"]
    )


def test_a_killed_slot_loses_and_doubles_no_record(
    worker: Worker, name: str, topic: str, target: str, produce: Produce, values: Callable[..., list[str]]
) -> None:
    config = {"connector.class": "TopicTransform", "topics": topic, "output.topic": target, "tasks.max": "2"}
    assert worker.create(name, {**config, "slot.dedicated": "true"}).status_code == 201
    worker.wait_for_tasks(name, "RUNNING", "RUNNING")
    produce(1, 400)
    values(target, at_least=400, within_s=60)
    *_, newest = worker.slots().values()  # one of the two that were made for this connector
    os.kill(newest, signal.SIGKILL)
    produce(401, 800)
    eventually(lambda: sum(worker.sink_offsets(name).values()) == 800, within_s=60)
    assert sorted(values(target)) == sorted(f"line {n}" for n in range(1, 801))
    worker.wait_for_tasks(name, "RUNNING", "RUNNING")
