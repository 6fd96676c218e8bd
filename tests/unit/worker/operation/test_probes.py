"""What `/health` says of a worker that has started."""

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.cluster.info import HealthStatus
from fencepost.telemetry.secret import hold
from fencepost.worker.operation.cluster.probes import HealthCheck, Probes
from fencepost.worker.progress import Progress


def probes(absence: str | None, *, topic: Any = None, refusal: str | None = None) -> Probes:
    progress = Progress()
    progress.is_started = True
    readable = SimpleNamespace(read_to_end=lambda timeout_s: None)
    other: Any = SimpleNamespace(read=None, here=None)
    spark, leader = SimpleNamespace(absence=absence), SimpleNamespace(is_leading=True, refusal=refusal)
    return Probes(HealthCheck(topic or readable, progress, spark, leader), lambda: b"", other, other)


def test_a_worker_whose_spark_runs_is_healthy() -> None:
    assert probes(None).health().status is HealthStatus.HEALTHY


def test_a_leader_that_cannot_write_an_assignment_says_why() -> None:
    health = probes(None, refusal="the assignment cannot be written: too large").health()
    assert health.status is HealthStatus.HEALTHY
    assert "It leads" in health.message
    assert "too large" in health.message


def test_a_worker_without_spark_is_not_ready_and_says_why_without_secrets() -> None:
    release = hold(["hunter22-hunter"])
    health = probes("the JVM ended: exit code 1, password hunter22-hunter").health()
    release()
    assert health.status is HealthStatus.STARTING
    assert "cannot run tasks" in health.message
    assert "exit code 1" in health.message
    assert "hunter22" not in health.message


@pytest.mark.parametrize("absence", [None, "gone"])
def test_a_worker_that_cannot_read_its_topic_is_unhealthy_whatever_spark_does(absence: str | None) -> None:
    def fail(timeout_s: float) -> None:
        raise TimeoutError

    assert probes(absence, topic=SimpleNamespace(read_to_end=fail)).health().status is HealthStatus.UNHEALTHY
