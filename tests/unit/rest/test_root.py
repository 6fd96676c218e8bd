import pytest
from starlette.testclient import TestClient

from fencepost.cluster.info import Health, HealthStatus

from .fake import FakeWorker


def test_root_shows_versions_commit_and_cluster(client: TestClient) -> None:
    assert client.get("/").json() == {
        "version": "4.3.1",
        "commit": "abc123",
        "kafka_cluster_id": "cluster-1",
        "fencepost_version": "0.1.0",
    }


def test_worker_says_where_its_kafka_is(client: TestClient) -> None:
    assert client.get("/kafka").json() == {
        "cluster_id": "cluster-1",
        "bootstrap_servers": "kafka-1:19092,kafka-2:19092",
    }


@pytest.mark.parametrize(
    ("status", "code"),
    [(HealthStatus.HEALTHY, 200), (HealthStatus.STARTING, 503), (HealthStatus.UNHEALTHY, 500)],
)
def test_health_has_a_code_for_each_status(
    client: TestClient, worker: FakeWorker, status: HealthStatus, code: int
) -> None:
    worker.health_answer = Health(status, "why")
    answer = client.get("/health")
    assert (answer.status_code, answer.json()) == (code, {"status": status.value, "message": "why"})


@pytest.mark.parametrize("status", [HealthStatus.STARTING, HealthStatus.UNHEALTHY])
def test_liveness_does_not_wait_for_readiness(client: TestClient, worker: FakeWorker, status: HealthStatus) -> None:
    worker.health_answer = Health(status, "why")
    assert client.get("/health").status_code != 200
    answer = client.get("/health?live")
    assert (answer.status_code, answer.json()) == (200, {"status": "healthy", "message": "Worker answers."})


def test_metrics_are_in_the_format_of_prometheus(client: TestClient) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.text == "# HELP x x\nx 1.0\n"
