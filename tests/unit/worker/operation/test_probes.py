"""What `/health` says of a worker that has started."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.cluster.info import HealthStatus
from fencepost.config.worker import WorkerConfig
from fencepost.rest.access.access import access_of
from fencepost.secret.known import hold
from fencepost.worker.operation.cluster import HealthCheck, Probes
from fencepost.worker.state import Progress
from support.settings import SETTINGS


def probes(absence: str | None, *, topic: Any = None, refusal: str | None = None, is_ready: bool = True) -> Probes:
    progress = Progress()
    progress.is_started = True
    readable = SimpleNamespace(read_to_end=lambda timeout_s: None)
    past = SimpleNamespace(read=None, here=None)
    other: Any = SimpleNamespace(read=None, here=None, past=past)
    spark, leader = (
        SimpleNamespace(absence=absence, is_ready=is_ready),
        SimpleNamespace(is_leading=True, refusal=refusal),
    )
    return Probes(HealthCheck(topic or readable, progress, spark, leader), lambda: b"", other, other)


def test_worker_is_healthy_while_spark_runs() -> None:
    assert probes(None).health().status is HealthStatus.HEALTHY


def test_worker_is_not_ready_before_spark_can_run_a_task() -> None:
    health = probes(None, is_ready=False).health()
    assert health.status is HealthStatus.STARTING
    assert health.message == "Worker answers requests, but cannot run tasks yet: Spark is starting."


def test_health_of_a_leader_that_cannot_write_an_assignment_has_the_reason() -> None:
    health = probes(None, refusal="the assignment cannot be written: too large").health()
    assert health.status is HealthStatus.HEALTHY
    assert "It leads" in health.message
    assert "too large" in health.message


def test_invalid_roles_file_is_named_until_it_is_valid_again(tmp_path: Path) -> None:
    users, roles = tmp_path / "users.properties", tmp_path / "roles"
    users.write_text("alice=s3cret\n")
    roles.write_text("user:alice admin *\n")
    given = {"rest.basic.users.file": str(users), "rest.roles.file": str(roles)}
    access = access_of(WorkerConfig({**SETTINGS, **given}))
    assert str(roles) not in probes(None).health().message
    roles.write_text("user:alice owner *\n")
    health = probes(None).health()
    assert health.status is HealthStatus.HEALTHY
    assert str(roles) in health.message
    assert "owner" not in health.message, "whoever may ask for health need not see roles"
    assert access.asks
    roles.write_text("user:alice view *\n")
    assert str(roles) not in probes(None).health().message


def test_worker_without_spark_is_not_ready_and_its_reason_has_no_secrets() -> None:
    release = hold(["hunter22-hunter"])
    health = probes("the JVM ended: exit code 1, password hunter22-hunter").health()
    release()
    assert health.status is HealthStatus.STARTING
    assert "cannot run tasks" in health.message
    assert "exit code 1" in health.message
    assert "hunter22" not in health.message


@pytest.mark.parametrize("absence", [None, "gone"])
def test_worker_that_cannot_read_its_topic_is_unhealthy_with_or_without_spark(absence: str | None) -> None:
    def fail(timeout_s: float) -> None:
        raise TimeoutError

    assert probes(absence, topic=SimpleNamespace(read_to_end=fail)).health().status is HealthStatus.UNHEALTHY
