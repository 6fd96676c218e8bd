"""A worker's own life: killed and started again, stopped gracefully, with exactly-once on and off."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from file_connector import append, created, file_source, numbered, settings_of_tests

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.cluster import LightWorker
from support.worker import Worker

Values = Callable[..., list[str]]


@pytest.fixture
def own_worker(kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Makes a worker that the test may kill."""
    made: list[Worker] = []

    def make(kind: type[Worker] = Worker, **settings: str) -> Worker:
        group = f"own-{uuid.uuid4().hex[:6]}"
        made.append(kind(kafka.bootstrap_servers, tmp_path, settings_of_tests(**settings), group=group))
        _start(made[-1])
        return made[-1]

    yield make
    for worker in made:
        if worker.process is not None and worker.process.poll() is None:
            worker.kill()


@pytest.mark.timeout(1_800)
def test_a_killed_worker_resumes_at_its_offsets_and_a_stopped_one_exits_with_0(
    own_worker: Callable[..., Worker], topic_name: str, values: Values, tmp_path: Path
) -> None:
    # A task that did not end in time would be abandoned, with its transaction.
    worker, file = own_worker(**{"task.shutdown.graceful.timeout.ms": "20000"}), tmp_path / "in.txt"
    append(file, numbered(1, 100))
    interval = {
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "800000",
        "producer.override.transaction.timeout.ms": "900000",
    }
    created(worker, "poll", file_source(file, topic_name))
    created(worker, "interval", {**file_source(file, f"{topic_name}-i"), **interval})
    created(worker, "paused", file_source(file, f"{topic_name}-p"), initial_state="PAUSED")
    assert values(topic_name, 100, within_s=60) == numbered(1, 100)
    worker.wait_for_tasks("interval", "RUNNING")
    worker.kill()
    append(file, numbered(101, 200))
    _start(worker)
    assert sorted(worker.rest.get("/connectors").json()) == ["interval", "paused", "poll"]
    assert values(topic_name, 200, within_s=60) == numbered(1, 200)
    eventually(lambda: worker.status("paused")["connector"]["state"] == "PAUSED")
    eventually(
        lambda: worker.log_text().count("task interval-0") >= 0 and worker.task_states("interval") == ["RUNNING"]
    )
    eventually(
        lambda: (
            worker.metric("kafka_connect_source_task_metrics_source_record_poll_total", connector="interval") == 200
        ),
        within_s=60,
    )
    process = worker.process
    assert process is not None
    below = psutil.Process(process.pid).children(recursive=True)
    assert worker.stop() == 0
    assert values(f"{topic_name}-i") == numbered(1, 200)
    eventually(lambda: not [p for p in below if p.is_running() and p.status() != psutil.STATUS_ZOMBIE], within_s=60)


@pytest.mark.timeout(1_800)
def test_without_exactly_once_records_arrive_and_offsets_are_committed_in_time(
    own_worker: Callable[..., Worker], topic_name: str, values: Values, tmp_path: Path
) -> None:
    off = {"exactly.once.source.support": "disabled", "offset.flush.interval.ms": "300"}
    worker, file = own_worker(LightWorker, **off), tmp_path / "in.txt"
    assert "exactly.once.source.support is disabled" in worker.log_text()
    append(file, numbered(1, 100))
    created(worker, "c", file_source(file, topic_name))
    assert values(topic_name, 100, within_s=60) == numbered(1, 100)
    eventually(
        lambda: (
            worker.metric("kafka_connect_connector_task_metrics_offset_commit_success_percentage", connector="c") > 0
        )
    )
    worker.kill()
    append(file, numbered(101, 200))
    _start(worker)
    assert values(topic_name, 200, within_s=60) == numbered(1, 200)
    created(worker, "required", {**file_source(file, "t"), "exactly.once.support": "requested"})
    answer = worker.create("refused", {**file_source(file, "t"), "exactly.once.support": "required"})
    assert answer.status_code == 400
    assert "exactly-once" in answer.json()["message"]
    append(file, numbered(201, 300))
    worker.rest.put("/connectors/c/pause")
    eventually(lambda: worker.task_states("c") == ["PAUSED"])
    found = values(topic_name)
    assert found == numbered(1, len(found))
    assert worker.stop() == 0


def _start(worker: Worker) -> None:
    """Start it and wait for Spark, which comes up beside REST, on a busy machine long after it."""
    worker.start()
    eventually(worker.slots, within_s=200)
