"""Slots on a running worker: neighbours of a task that hangs, and many tasks."""

from collections.abc import Callable
from pathlib import Path

from file_connector import append, created, file_source, numbered

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from fencepost.testing.source import DEAF, HANG, TestingSource
from support.worker import Worker

Values = Callable[..., list[str]]


def test_a_task_that_hangs_does_not_stop_its_neighbours_and_is_abandoned(
    worker: Worker, name: str, values: Values, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    file, neighbour = tmp_path / "in.txt", f"{name}-neighbour"
    append(file, numbered(1, 10))
    created(worker, neighbour, file_source(file, neighbour))
    source = TestingSource(["a", DEAF()], topic=name, bootstrap=kafka.bootstrap_servers)
    created(worker, name, source.properties(name=name))
    worker.wait_for_tasks(name, "RUNNING")
    assert len(values(name, 1)) == 1
    append(file, numbered(11, 20))
    assert values(neighbour, 20) == numbered(1, 20)
    assert worker.rest.put(f"/connectors/{name}/stop").status_code == 204
    eventually(lambda: f"task {name}-0 did not stop within" in worker.log_text(), within_s=10)
    append(file, numbered(21, 30))
    assert values(neighbour, 30) == numbered(1, 30)
    worker.wait_for_tasks(neighbour, "RUNNING")
    worker.rest.delete(f"/connectors/{neighbour}")


def test_a_task_that_waits_but_heeds_a_stop_is_not_abandoned(
    worker: Worker, name: str, values: Values, kafka: EmbeddedKafka
) -> None:
    source = TestingSource(["a", HANG()], topic=name, bootstrap=kafka.bootstrap_servers)
    created(worker, name, source.properties(name=name))
    values(name, 1)
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.status(name)["tasks"] == [])
    assert f"task {name}-0 did not stop" not in worker.log_text()


def test_many_tasks_share_few_slots(worker: Worker, name: str, values: Values) -> None:
    count = 24
    config = {
        "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
        "tasks.max": str(count),
        "topic": name,
        "throughput": "50",
    }
    created(worker, name, config)
    worker.wait_for_tasks(name, *["RUNNING"] * count, within_s=90)
    assert len(worker.slots()) <= int(worker.properties["slots.max"]) + 1
    assert len(values(name, 500)) >= 500
    worker.rest.put(f"/connectors/{name}/pause")
    worker.wait_for_tasks(name, *["PAUSED"] * count)
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.status(name)["tasks"] == [])
