"""Sources whose transactions are written by the batch client, on a running worker."""

from collections.abc import Callable
from pathlib import Path

import pytest
from file_connector import append, created, file_source, numbered

from fencepost.cluster.fencing import task_transactional_ids
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.worker import Worker

Values = Callable[..., list[str]]
BATCH = {"producer.client": "batch"}


def epochs(kafka: EmbeddedKafka, worker: Worker, name: str) -> int:
    """Return how far the epochs of a task's producers have got: only the batch client has one for each transaction."""
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    ids = task_transactional_ids(worker.properties["group.id"], name, 0)
    return sum(each.producer_epoch or 0 for each in admin.transactions.describe(ids).values())


@pytest.mark.parametrize("own", [BATCH, {}], ids=["chosen", "by itself"])
def test_a_file_is_written_once_and_in_order_through_a_restart_of_its_task(
    worker: Worker, kafka: EmbeddedKafka, name: str, values: Values, tmp_path: Path, own: dict[str, str]
) -> None:
    file = tmp_path / "in.txt"
    append(file, numbered(1, 50))
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(name, partitions=1, replication=1)
    created(worker, name, {**file_source(file, name, batch_size="5"), **own})
    assert values(name, 50) == numbered(1, 50)
    assert epochs(kafka, worker, name) >= 10
    assert worker.rest.post(f"/connectors/{name}/tasks/0/restart").status_code == 204
    append(file, numbered(51, 60))
    assert values(name, 60) == numbered(1, 60)
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.status(name)["tasks"] == [])
    assert values(name) == numbered(1, 60)


def test_each_committed_record_is_reported_to_the_task_with_its_offset(
    worker: Worker, name: str, values: Values
) -> None:
    created(worker, name, {"connector.class": "worker_suite.TrackingConnector", "topic": name, **BATCH})
    assert len(values(name, 10)) == 10
    assert all(text.split(" at ")[1].isdigit() for text in values(f"{name}-told", 10))


@pytest.mark.parametrize("client", ["batch", "auto"])
def test_a_setting_that_the_batch_client_lacks_is_refused_or_selects_librdkafka(
    worker: Worker, kafka: EmbeddedKafka, name: str, values: Values, tmp_path: Path, client: str
) -> None:
    file = tmp_path / "in.txt"
    append(file, numbered(1, 5))
    config = {**file_source(file, name), "producer.override.statistics.interval.ms": "1000", "producer.client": client}
    if client == "auto":
        created(worker, name, config)
        assert values(name, 5) == numbered(1, 5)
        assert epochs(kafka, worker, name) == 0
        return
    answer = worker.create(name, config)
    assert answer.status_code == 400
    for part in ("producer.client", "statistics.interval.ms", "producer.client=librdkafka"):
        assert part in answer.json()["message"]
